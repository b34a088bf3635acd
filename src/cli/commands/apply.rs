//! `apply`: from files, or from a plan that was saved.

use crate::cli::args::{Apply, Files};
use crate::cli::commands::submit::{self, How, Order, Verb};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::saved::read_saved;

/// Carries out what the files want, or what a saved plan says.
///
/// # Errors
/// If there is no such plan, and those of [`submit::run`].
pub(crate) async fn run(context: &Context, arguments: &Apply) -> Result<Exit, CliError> {
    let saved = match &arguments.plan {
        Some(file) => Some(read_saved(context, file)?),
        None => None,
    };
    let typed = Files {
        files: arguments.files.clone(),
        syntax: arguments.syntax,
    };
    let from = saved.as_ref();
    let order = Order {
        files: from.map_or(&typed, |saved| &saved.files),
        set: from.map_or(&arguments.set, |saved| &saved.set),
        place: Some(from.map_or(&arguments.place, |saved| &saved.place)),
        verb: Verb::Apply(How {
            yes: arguments.how.yes,
            keep_going: arguments.how.keep_going,
            no_wait: arguments.how.no_wait,
        }),
        output: &arguments.output.output,
        parallelism: arguments.parallelism.parallelism,
        choices: &arguments.choices,
        policy_override: arguments.policy_override,
        wait: arguments.wait,
        saved: from.map(|saved| &saved.plan),
        namespace: match from {
            Some(saved) => saved.namespace.clone(),
            None => context.namespace()?,
        },
    };
    submit::run(context, &order).await
}
