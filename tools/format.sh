#!/bin/bash
# tools/format.sh           formats every tracked source with clang-format 14 (Debian 12), and empties the list of exceptions
# tools/format.sh --check   names the sources that are not formatted; those of tests/unformatted.txt may be, and the list may only shrink
# tools/format.sh --list    writes that list anew
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
format=$(command -v clang-format-14 || command -v clang-format)
[ -n "$format" ] || { echo "skipped: there is no clang-format"; exit 0; }
"$format" --version | grep -q "version 14" || { echo "skipped: $("$format" --version) is not version 14, whose layout the sources have"; exit 0; }
git rev-parse > /dev/null 2>&1 || { echo "skipped: not a git checkout"; exit 0; }
list=tests/unformatted.txt
sources() { git ls-files '*.cpp' '*.h' '*.inl'; }
unformatted() { sources | xargs -n 40 "$format" --dry-run -Werror 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: error:.*/\1/p' | sort -u; }
case ${1:-} in
  "") sources | xargs -P 2 -n 40 "$format" -i && : > $list ;;
  --list) unformatted > $list ;;
  --check)
    found=$(unformatted)
    new=$(comm -23 <(echo "$found") <(sort $list))
    stale=$(comm -13 <(echo "$found") <(sort $list))
    [ -z "$new" ] || { echo "not formatted (clang-format -i FILE):"; echo "$new"; }
    [ -z "$stale" ] || { echo "formatted or gone: remove from $list:"; echo "$stale"; }
    [ -z "$new$stale" ] ;;
  *) echo "usage: tools/format.sh [--check|--list]"; exit 2 ;;
esac
