#include "train/base_watch.h"

namespace dml {

const std::string& BaseWatch::find_lost() {
  for (const std::string& path : comm_.all_gather(files_.lost()))
    if (lost_.empty()) lost_ = path;
  return lost_;
}

BaseWatch::Change BaseWatch::change() {
  using Kind = MappedWatch::Kind;
  MappedWatch::Change mine = files_.change();
  if (!comm_.any(mine.kind != Kind::none)) return {};
  if (!comm_.any(mine.kind == Kind::changed) && comm_.any(mine.kind == Kind::touched)) {
    // A changed time stamp alone is no change of contents. Copied values do not read the base any more, but checkpoints
    // name it.
    if (examine_() == digest_) {
      if (mine.kind == Kind::touched) files_.accept();
      mine = files_.change();
    } else if (mine.kind == Kind::touched) {
      mine.kind = Kind::changed;
    }
  }
  std::string text;
  if (mine.kind == Kind::changed || mine.kind == Kind::touched)
    text = mine.path + ": the base model was changed in place during this run";
  if (mine.kind == Kind::replaced)
    text = mine.path + ": the base model was replaced or removed during this run, which used the earlier file";
  const bool sound = !comm_.any(mine.kind == Kind::changed || mine.kind == Kind::touched) || copied_;
  for (const std::string& other : comm_.all_gather(text))
    if (!other.empty()) return {other, sound};
  return {};
}

}  // namespace dml
