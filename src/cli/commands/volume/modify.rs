//! `volume modify`.

use std::collections::BTreeMap;

use super::args::ModifyArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::mutable_parameters;
use nomad_csi_client::ports::Document;
use nomad_csi_client::reconcile::workflow::modify_volume;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;
use nomad_csi_wire::ModifyResponse;

/// Changes mutable parameters of a volume, and prints all that are in force.
///
/// # Errors
/// If a parameter is not `KEY=VALUE`, and those of [`modify_volume`].
pub(crate) async fn modify(
    context: &CommandContext,
    arguments: &ModifyArgs,
) -> Result<Exit, CliError> {
    let parameters = parse_parameters(&arguments.parameters)?;
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "volume modify", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let in_force = modify_volume(&workflow, &scope, &arguments.id, &parameters).await?;
            let output = &arguments.output.output;
            let document = Document::of(&ModifyResponse { mutable_parameters: in_force.clone() });
            let text =
                output.render_one(&document)?.unwrap_or_else(|| mutable_parameters(&in_force));
            context.printer.print_result(&text);
            Ok(Exit::Done)
        })
        .await
}

fn parse_parameters(given: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let mut parameters = BTreeMap::new();
    for parameter in given {
        let (key, value) =
            parameter.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                let message = format!("`{}` is not a parameter", one_line(parameter));
                Diagnostic::error(Code::CliInvalidValue, message)
                    .help("write KEY=VALUE, such as `iops=3000`")
            })?;
        let previous = parameters.insert(key.to_owned(), value.to_owned());
        if previous.is_some_and(|previous| previous != value) {
            let message = format!("parameter `{}` has two values", one_line(key));
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("give each parameter once")
                .into());
        }
    }
    Ok(parameters)
}
