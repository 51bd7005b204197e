#!/bin/bash
# tools/format.sh           formats every tracked source with clang-format 14 (Debian 12)
# tools/format.sh --check   names the sources that are not formatted; exit code 1 where there are any
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
format=$(command -v clang-format-14 || command -v clang-format)
[ -n "$format" ] || { echo "skipped: there is no clang-format"; exit 0; }
"$format" --version | grep -q "version 14" || { echo "skipped: $("$format" --version) is not version 14, whose layout the sources have"; exit 0; }
git rev-parse > /dev/null 2>&1 || { echo "skipped: not a git checkout"; exit 0; }
sources() { git ls-files '*.cpp' '*.h' '*.inl'; }
case ${1:-} in
  "") sources | xargs -P 2 -n 40 "$format" -i ;;
  --check)
    found=$(sources | xargs -n 40 "$format" --dry-run -Werror 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: error:.*/\1/p' | sort -u)
    [ -z "$found" ] || { echo "not formatted (clang-format -i FILE):"; echo "$found"; exit 1; } ;;
  *) echo "usage: tools/format.sh [--check]"; exit 2 ;;
esac
