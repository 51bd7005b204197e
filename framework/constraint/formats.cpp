#include "constraint/formats.h"

#include <string>
#include <utility>
#include <vector>

#include "constraint/regex.h"

namespace dml {

std::optional<Languages::Id> format_language(Languages& l, std::string_view name) {
  // RFC 3339. Days that a month has; 29 February in years that 4 divides and 100 does not, or 400 does.
  // No year 0, which few programs know.
  const std::string year = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
  const std::string leap = "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  const std::string date = "(?:" + year +
                           "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-"
                           "(?:0[1-9]|1[0-9]|2[0-8]))|" +
                           leap + "-02-29)";
  const std::string time =
      "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  const std::string ipv4 = octet + "(?:\\." + octet + "){3}";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  const std::string hostname = label + "(?:\\." + label + "){0,3}";  // at most 255 characters, whatever the labels
  const std::string h = "[0-9A-Fa-f]{1,4}";
  std::string ipv6 = "(?:" + h + ":){7}" + h;
  for (int front = 0; front <= 6; ++front) {
    const std::string left =
        front == 0 ? "" : h + (front > 1 ? "(?::" + h + "){" + std::to_string(front - 1) + "}" : "");
    const int most = 6 - front;  // behind "::"
    ipv6 += "|" + left + "::(?:" + h + (most > 0 ? "(?::" + h + "){0," + std::to_string(most) + "}" : "") + ")?";
  }
  ipv6 += "|[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){6}::";
  const std::string unreserved = "[A-Za-z0-9._~!$&'()*+,;=:@-]", encoded = "%[0-9A-Fa-f]{2}";
  const std::string pchar = "(?:" + unreserved + "|" + encoded + ")";
  const std::string path = "(?:/" + pchar + "*)*",
                    query = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  const std::string authority = "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" + encoded +
                                ")*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|" + encoded + ")*|\\[(?:" + ipv6 +
                                ")\\])(?::[0-9]*)?";
  const std::string uri =
      "[A-Za-z][A-Za-z0-9+.-]*:(?:" + authority + path + "|/?(?:" + pchar + "+" + path + ")?)" + query;
  const std::string relative = "(?:" + authority + path + "|/(?:" + pchar + "+" + path +
                               ")?|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" + encoded + ")*" + path + ")" + query;
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string email = atom + "(?:\\." + atom + ")*@" + hostname;
  const std::string pointer = "(?:/(?:[^~/]|~[01])*)*";
  const std::string duration =
      "P(?:[0-9]+W|(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)"
      "?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))";
  const std::string uuid = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
  const std::vector<std::pair<std::string_view, std::string>> table{
      {"date", date},
      {"time", time},
      {"date-time", date + "[Tt]" + time},
      {"duration", duration},
      {"email", email},
      {"idn-email", email},
      {"hostname", hostname},
      {"idn-hostname", hostname},
      {"ipv4", ipv4},
      {"ip-address", ipv4},
      {"ipv6", ipv6},
      {"uuid", uuid},
      {"uri", uri},
      {"iri", uri},
      {"uri-reference", uri + "|" + relative},
      {"iri-reference", uri + "|" + relative},
      {"uri-template", "(?:(?:" + pchar + "|[/?#])|\\{[+#./;?&]?[A-Za-z0-9_]+(?:,[A-Za-z0-9_]+)*\\*?\\})*"},
      {"json-pointer", pointer},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + pointer + ")"},
      {"regex", "[A-Za-z0-9 _.,:;@#%&=~<>!\"'/-]*|\\^[A-Za-z0-9 _.,:;@#%&=~<>!\"'/-]*\\$"}};
  for (auto& [format, regex] : table)
    if (format == name) return regex_match(l, regex);
  return std::nullopt;
}

}  // namespace dml
