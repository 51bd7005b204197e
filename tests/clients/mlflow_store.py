"""The logs of a run for MLflow, read as its FileStore reads them: with MLflow itself where it is installed, else by
the rules of mlflow/store/tracking/file_store.py and mlflow/utils/validation.py, written again here.

    mlflow_store.py RUN      RUN/mlruns against RUN/metrics.jsonl
"""
import json
import os
import re
import sys

NAME = re.compile(r"^[/\w.\- :]*$")  # of a metric, a parameter or a tag
RUN_ID = re.compile(r"^[a-zA-Z0-9][\w\-]{0,255}$")
STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
RUN_KEYS = ["artifact_uri", "end_time", "experiment_id", "lifecycle_stage", "run_id", "run_name", "run_uuid",
            "start_time", "status", "user_id"]
EXPERIMENT_KEYS = ["artifact_location", "creation_time", "experiment_id", "last_update_time", "lifecycle_stage", "name"]


def meta(folder, keys):
    import yaml
    found = yaml.safe_load(open(folder + "/meta.yaml"))
    missing = [k for k in keys if k not in found]
    assert not missing, f"{folder}/meta.yaml lacks {missing}"
    assert found["lifecycle_stage"] == "active"
    return found


def files(folder):
    """Values may be grouped: the name of one is its path."""
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(root, name), folder)
            assert NAME.match(path) and os.path.normpath(path) == path and len(path) <= 250, path
            yield path, open(os.path.join(root, name)).read()


def by_the_rules(store):
    (experiment,) = [e for e in os.listdir(store) if not e.startswith(".")]
    told = meta(f"{store}/{experiment}", EXPERIMENT_KEYS)
    assert told["experiment_id"] == experiment and told["artifact_location"].startswith("file:///")
    (run,) = [r for r in os.listdir(f"{store}/{experiment}") if os.path.isdir(f"{store}/{experiment}/{r}")]
    folder = f"{store}/{experiment}/{run}"
    info = meta(folder, RUN_KEYS)
    assert RUN_ID.match(run) and info["run_id"] == info["run_uuid"] == run and info["experiment_id"] == experiment
    assert STATUS[info["status"]] == "FINISHED" and info["end_time"] >= info["start_time"] > 1.5e12
    metrics = {}
    for name, text in files(folder + "/metrics"):
        points = []
        for line in text.splitlines():
            fields = line.strip().split(" ")
            assert len(fields) == 3, f"{name}: {line!r}"
            points.append((int(fields[2]), float(fields[1]), int(fields[0])))
        assert points, f"{name}: MLflow refuses a run with a metric that has no value"
        metrics[name] = points
    params = dict(files(folder + "/params"))
    assert all(len(v) <= 6000 for v in params.values())
    return metrics, params, dict(files(folder + "/tags"))


def by_mlflow(store):
    from mlflow.tracking import MlflowClient
    client = MlflowClient("file://" + os.path.abspath(store))
    experiments = [e for e in client.search_experiments() if e.name != "Default"]
    (run,) = client.search_runs([experiments[0].experiment_id])
    assert run.info.status == "FINISHED"
    metrics = {name: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(run.info.run_id, name)]
               for name in run.data.metrics}
    return metrics, run.data.params, run.data.tags


def main(run):
    try:
        import mlflow  # noqa: F401
        read, how = by_mlflow, "MLflow"
    except ImportError:
        read, how = by_the_rules, "the rules of its FileStore"
        try:
            import yaml  # noqa: F401
        except ImportError:
            print("skipped: neither mlflow nor yaml is there")
            return
    metrics, params, tags = read(run + "/mlruns")
    lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    losses = {m["step"]: m["loss"] for m in lines if "event" not in m and "loss" in m}
    assert losses and {step: value for step, value, _ in metrics["loss"]} == losses
    evals = {m["step"]: m["loss"] for m in lines if m.get("event") == "eval" and "loss" in m}
    assert evals and {step: value for step, value, _ in metrics["eval_loss"]} == evals, (evals, metrics["eval_loss"])
    assert params["max_steps"] and tags["mlflow.runName"]
    print(f"{len(losses)} losses, {len(metrics)} metrics and {len(params)} parameters read by {how}")


main(sys.argv[1])
