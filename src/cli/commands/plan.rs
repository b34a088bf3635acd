//! `plan`: what would be done; writes nothing.

use crate::cli::args::{PlanArguments, ReportForm};
use crate::cli::commands::submit::{prepare, remarks};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::specs::{Wanted, load};
use crate::cli::ui::{json_text, plan_json, plan_text};
use crate::model::SetName;
use crate::ports::VolumeApi;
use crate::spec::Purpose;

/// Prints the plan.
///
/// # Errors
/// If a specification is wrong, the server cannot be read, or somebody interrupts.
pub(crate) async fn run(context: &Context, arguments: &PlanArguments) -> Result<Exit, CliError> {
    let wanted = load(
        context,
        &arguments.files,
        Purpose::ByExternalId,
        &arguments.set,
    )?;
    context
        .with_server(async |api| show(context, api, &wanted, arguments).await)
        .await
}

async fn show(
    context: &Context,
    api: &dyn VolumeApi,
    wanted: &Wanted,
    arguments: &PlanArguments,
) -> Result<Exit, CliError> {
    let parallelism = arguments.parallelism.parallelism;
    let plan = prepare(context, api, wanted, Purpose::ByExternalId, parallelism)
        .await?
        .plan;
    let text = match arguments.output {
        ReportForm::Text => plan_text(&plan, api.name()),
        ReportForm::Json => {
            let mut document = plan_json(&plan, api.name(), &wanted.sources);
            document["set"] = wanted.set.as_ref().map(SetName::as_str).into();
            json_text(&document)
        }
    };
    context.printer.data(&text);
    context.report(&remarks(&plan), &wanted.sources);
    let counts = plan.counts();
    Ok(match (counts.stuck(), counts.changes()) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Changes,
        (_, _) => Exit::Blocked,
    })
}
