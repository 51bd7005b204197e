// Learning-rate schedules of plug-ins.
#include <cmath>

#include "optim/schedule.h"
#include "plugin/adapters.h"

namespace dml {

void add_row(const Origin& origin, plugin::Row<plugin::Schedule> row) {
  ScheduleShape shape;
  for (const plugin::Argument& a : row.arguments) shape.kwargs.push_back({.name = a.name, .checked_later = true});
  // Created once per set of arguments, since a schedule is evaluated in every step.
  struct Made {
    Json kwargs;
    std::unique_ptr<plugin::Schedule> schedule;
  };
  shape.factor = [origin, row, made = std::make_shared<Made>()](const ScheduleSettings& settings,
                                                                const SchedulePosition& place) {
    if (!made->schedule || made->kwargs != settings.kwargs)
      *made = {settings.kwargs,
               make_of(origin, row, checked_arguments(row.arguments, settings.kwargs, "lr_scheduler_kwargs"))};
    const double factor = guarded(origin, [&] {
      return made->schedule->factor({place.step, place.warmup, place.steps});
    });
    if (!std::isfinite(factor)) plugin_failed(origin, fmt::format("the factor of step {} is {}", place.step, factor));
    return factor;
  };
  add_names(schedules(), row, shape);
}

}  // namespace dml
