#include "constraint/formats.h"

#include <string>
#include <utility>
#include <vector>

#include "constraint/regex.h"

namespace dml {

namespace {

const std::string kHex = "[0-9A-Fa-f]{1,4}", kEncoded = "%[0-9A-Fa-f]{2}";

// RFC 3339 dates: only days that exist; 29 February in years divisible by 4 but not by 100, or by 400.
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

// RFC 1123 hostnames of at most 253 characters: up to four labels of any length, or up to nine shorter ones.
std::string hostname() {
  const std::string any = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  const std::string less = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,25}[A-Za-z0-9])?";
  return "(?:" + any + "(?:\\." + any + "){0,3}|" + less + "(?:\\." + less + "){4,8})";
}

// Letters of some scripts that RFC 5892 allows at any position; few enough that the ASCII form stays short.
const std::string kLetters =
    "\\u00DF-\\u00F6\\u00F8-\\u00FF\\u03B1-\\u03C9\\u0430-\\u044F\\u3041-\\u3096\\u4E00-\\u9FA5\\uAC00-\\uD7A3";
std::string any_hostname() {
  const std::string letter = "[a-z0-9" + kLetters + "]", label = letter + "(?:-?" + letter + "){0,8}";
  return "(?:" + hostname() + "|" + label + "(?:\\." + label + "){0,8})";
}

// `more`: allowed characters of the part before @, in addition to RFC 5322.
std::string email(const std::string& more, const std::string& host) {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" + more + "-]+";
  return atom + "(?:\\." + atom + ")*@" + host;
}

// Most regular expressions of ECMA-262: characters, escapes, classes, plain ranges, quantifiers, nested groups.
std::string regex() {
  const std::string character = "[A-Za-z0-9 _.,:;@#%&=~<>!\"'/-]";
  const std::string escape = "\\\\[dDwWsStnrfv.*+?^$|()\\[\\]{}/\\\\-]";
  const std::string one_of =
      "\\[\\^?(?:a-z|A-Z|0-9|a-f|A-F|[A-Za-z0-9_ .,:;@#%&=~<>!\"'/+*?()|{}$]|" + escape + ")+-?\\]";
  const std::string times = "(?:(?:[*+?]|\\{[0-9]{1,3},?\\}|\\{[0-9],[1-9][0-9]{1,2}\\})[?]?)?";
  std::string alternatives;
  for (int depth = 0; depth < 4; ++depth) {
    const std::string group = alternatives.empty() ? "" : "|\\((?:\\?:)?" + alternatives + "\\)";
    const std::string sequence = "(?:(?:" + character + "|" + escape + "|" + one_of + group + ")" + times + "|[\\^$])*";
    alternatives = sequence + "(?:\\|" + sequence + ")*";
  }
  return alternatives;
}

std::string ipv4() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  return octet + "(?:\\." + octet + "){3}";
}

// Eight groups, or "::" once in place of one or more groups.
std::string ipv6() {
  const std::string& h = kHex;
  std::string out = "(?:" + h + ":){7}" + h;
  for (int front = 0; front <= 6; ++front) {
    const std::string left =
        front == 0 ? "" : h + (front > 1 ? "(?::" + h + "){" + std::to_string(front - 1) + "}" : "");
    const int most = 6 - front;  // groups after "::"
    out += "|" + left + "::(?:" + h + (most > 0 ? "(?::" + h + "){0," + std::to_string(most) + "}" : "") + ")?";
  }
  return out + "|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){6}::";
}

// RFC 3986.
// `more`: characters allowed in addition to RFC 3986, for RFC 3987.
const std::string kInternational = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF";
std::string path_character(const std::string& more = "") {
  return "(?:[A-Za-z0-9._~!$&'()*+,;=:@" + more + "-]|" + kEncoded + ")";
}
std::string authority(const std::string& more) {
  return "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" + more + "-]|" + kEncoded + ")*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=" + more +
         "-]|" + kEncoded + ")*|\\[(?:" + ipv6() + ")\\])(?::[0-9]*)?";
}
std::string query(const std::string& character) {
  return "(?:\\?(?:" + character + "|[/?])*)?(?:#(?:" + character + "|[/?])*)?";
}
std::string uri(const std::string& more = "") {
  const std::string character = path_character(more), path = "(?:/" + character + "*)*";
  return "[A-Za-z][A-Za-z0-9+.-]*:(?:" + authority(more) + path + "|/?(?:" + character + "+" + path + ")?)" +
         query(character);
}
std::string uri_reference(const std::string& more = "") {
  const std::string character = path_character(more), path = "(?:/" + character + "*)*";
  return uri(more) + "|(?:" + authority(more) + path + "|/(?:" + character + "+" + path +
         ")?|(?:[A-Za-z0-9._~!$&'()*+,;=@" + more + "-]|" + kEncoded + ")*" + path + ")" + query(character);
}

}  // namespace

std::optional<Languages::Id> format_language(Languages& l, std::string_view name) {
  const std::vector<std::pair<std::string_view, std::string>> table{
      {"date", date()},
      {"time", kTime},
      {"date-time", date() + "[Tt]" + kTime},
      {"duration", kDuration},
      {"email", email("", hostname())},
      {"idn-email", email(kLetters, any_hostname())},
      {"hostname", hostname()},
      {"idn-hostname", any_hostname()},
      {"ipv4", ipv4()},
      {"ip-address", ipv4()},
      {"ipv6", ipv6()},
      {"uuid", kUuid},
      {"uri", uri()},
      {"iri", uri(kInternational)},
      {"uri-reference", uri_reference()},
      {"iri-reference", uri_reference(kInternational)},
      {"uri-template", "(?:(?:" + path_character() + "|[/?#])|\\{[+#./;?&]?[A-Za-z0-9_]+(?:,[A-Za-z0-9_]+)*\\*?\\})*"},
      {"json-pointer", kPointer},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + kPointer + ")"},
      {"regex", regex()}};
  for (auto& [format, regex] : table)
    if (format == name) return regex_match(l, regex);
  return std::nullopt;
}

}  // namespace dml
