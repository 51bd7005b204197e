// Fields of the section about experiment trackers and the Hub.
#include "recipe/codecs.h"

namespace dml::recipe {

Section log_section() {
  using S = LogSection;
  Table t("Results for others",
          "Files that TensorBoard, MLflow and Weights & Biases read, and the Hugging Face Hub. Only hub_model_id sends "
          "anything to anybody; metrics.jsonl and report.html are always written.");
  t.defaults<S>();
  t.add("use_tensorboard", &S::use_tensorboard, "Write TensorBoard event files into the folder runs of output_dir.",
        {.example = "true"});
  t.add("use_mlflow", &S::use_mlflow, "Write a run of MLflow's file store.",
        {.example = "true", .unset = "true with mlflow_experiment_name"});
  t.add("mlflow_tracking_uri", &S::mlflow_tracking_uri, "Directory of MLflow's file store, a path or file:PATH.",
        {.example = "mlruns", .unset = "mlruns in output_dir"});
  t.add("mlflow_experiment_name", &S::mlflow_experiment_name, "MLflow experiment that the run belongs to.",
        {.example = "pirates", .unset = "Default"});
  t.add("mlflow_run_name", &S::mlflow_run_name, "Name of the run in MLflow.",
        {.example = "rank-16", .unset = "the name of output_dir"});
  t.add("use_wandb", &S::use_wandb, "Write an offline run of Weights & Biases into output_dir, for `wandb sync`.",
        {.example = "true", .unset = "true with wandb_project"});
  t.add("wandb_project", &S::wandb_project, "Weights & Biases project that the run belongs to.",
        {.example = "pirates", .unset = "uncategorized"});
  t.add("wandb_entity", &S::wandb_entity, "Weights & Biases user or team.",
        {.example = "crew", .unset = "the uploader's"});
  t.add("wandb_name", &S::wandb_name, "Name of the run in Weights & Biases.",
        {.example = "rank-16", .unset = "the name of output_dir"});
  t.add("wandb_run_id", &S::wandb_run_id, "Id of the run in Weights & Biases; letters, digits, _ and -.",
        {.example = "rank16a", .unset = "a new one"});
  t.add("wandb_mode", &S::wandb_mode, "Whether to write the run: offline or disabled.",
        {.choices = {{"offline", "offline"},
                     {"online", "offline", "dml sends nothing: upload the run with `wandb sync`"},
                     {"dryrun", "offline"},
                     {"disabled", "disabled"}},
         .example = "offline"});
  t.add("hub_model_id", &S::hub_model_id,
        "Repository of the Hub that the result is pushed to; made when it does not exist. The token is HF_TOKEN or the "
        "token file. A push that fails is a warning: the run continues, and `dml push` can repeat it.",
        {.example = "org/name", .unset = "nothing is pushed"});
  t.add("hub_strategy", &S::hub_strategy,
        "When to push: end, after training; every_save, the model of every checkpoint, too; checkpoint, also what is "
        "needed to resume, in the folder last-checkpoint; all_checkpoints, each in a folder of its own. A checkpoint "
        "that is saved while another is sent replaces the one that waits.",
        {.example = "end"});
  t.add("hub_revision", &S::hub_revision, "Branch of the repository to push to.", {.example = "v2", .unset = "main"});
  t.add("hub_private_repo", &S::hub_private_repo, "Make a new repository private.", {.example = "true"});
  return {std::move(t), &Recipe::log};
}

}  // namespace dml::recipe
