#include "constraint/formats.h"

#include <string>
#include <utility>
#include <vector>

#include "constraint/regex.h"

namespace dml {

namespace {

const std::string kHex = "[0-9A-Fa-f]{1,4}", kEncoded = "%[0-9A-Fa-f]{2}";

// RFC 3339. Days that a month has; 29 February in years that 4 divides and 100 does not, or 400 does.
// No year 0, which few programs know.
std::string date() {
  const std::string year = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
  const std::string leap = "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  return "(?:" + year +
         "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-"
         "(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap + "-02-29)";
}

const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kDuration =
    "P(?:[0-9]+W|(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)"
    "?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))";
const std::string kUuid = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
const std::string kPointer = "(?:/(?:[^~/]|~[01])*)*";

// RFC 1123: one to four labels, so at most 255 characters whatever the labels.
std::string hostname() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return label + "(?:\\." + label + "){0,3}";
}

std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  return atom + "(?:\\." + atom + ")*@" + hostname();
}

std::string ipv4() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  return octet + "(?:\\." + octet + "){3}";
}

// Eight groups, or "::" once in place of one or more.
std::string ipv6() {
  const std::string& h = kHex;
  std::string out = "(?:" + h + ":){7}" + h;
  for (int front = 0; front <= 6; ++front) {
    const std::string left =
        front == 0 ? "" : h + (front > 1 ? "(?::" + h + "){" + std::to_string(front - 1) + "}" : "");
    const int most = 6 - front;  // after "::"
    out += "|" + left + "::(?:" + h + (most > 0 ? "(?::" + h + "){0," + std::to_string(most) + "}" : "") + ")?";
  }
  return out + "|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){6}::";
}

// RFC 3986.
const std::string kPathCharacter = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" + kEncoded + ")";
const std::string kPath = "(?:/" + kPathCharacter + "*)*";

std::string authority() {
  return "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" + kEncoded + ")*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|" + kEncoded +
         ")*|\\[(?:" + ipv6() + ")\\])(?::[0-9]*)?";
}
std::string query() { return "(?:\\?(?:" + kPathCharacter + "|[/?])*)?(?:#(?:" + kPathCharacter + "|[/?])*)?"; }
std::string uri() {
  return "[A-Za-z][A-Za-z0-9+.-]*:(?:" + authority() + kPath + "|/?(?:" + kPathCharacter + "+" + kPath + ")?)" +
         query();
}
std::string uri_reference() {
  return uri() + "|(?:" + authority() + kPath + "|/(?:" + kPathCharacter + "+" + kPath +
         ")?|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" + kEncoded + ")*" + kPath + ")" + query();
}

}  // namespace

std::optional<Languages::Id> format_language(Languages& l, std::string_view name) {
  const std::vector<std::pair<std::string_view, std::string>> table{
      {"date", date()},
      {"time", kTime},
      {"date-time", date() + "[Tt]" + kTime},
      {"duration", kDuration},
      {"email", email()},
      {"idn-email", email()},
      {"hostname", hostname()},
      {"idn-hostname", hostname()},
      {"ipv4", ipv4()},
      {"ip-address", ipv4()},
      {"ipv6", ipv6()},
      {"uuid", kUuid},
      {"uri", uri()},
      {"iri", uri()},
      {"uri-reference", uri_reference()},
      {"iri-reference", uri_reference()},
      {"uri-template", "(?:(?:" + kPathCharacter + "|[/?#])|\\{[+#./;?&]?[A-Za-z0-9_]+(?:,[A-Za-z0-9_]+)*\\*?\\})*"},
      {"json-pointer", kPointer},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + kPointer + ")"},
      {"regex", "[A-Za-z0-9 _.,:;@#%&=~<>!\"'/-]*|\\^[A-Za-z0-9 _.,:;@#%&=~<>!\"'/-]*\\$"}};
  for (auto& [format, regex] : table)
    if (format == name) return regex_match(l, regex);
  return std::nullopt;
}

}  // namespace dml
