//! `plan`: what would be done; changes nothing on the server.

use clap::ValueEnum as _;

use crate::cli::args::{PlanArguments, ReportForm};
use crate::cli::choices::chosen;
use crate::cli::commands::prepare::{Asked, Prepared, prepare, remarks, warn_of_other_owners};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{open_set, owner};
use crate::cli::specs::{Empty, Rules, Wanted, load};
use crate::cli::ui::{Reported, json_text, one_line, plan_json, plan_text, report};
use crate::diagnostic::{Code, Diagnostic};
use crate::files;
use crate::model::SetName;
use crate::nomad::NomadClient;
use crate::plan::{Origin, SavedPlan};
use crate::ports::{IdSource as _, RandomIds, ServerKind, VolumeApi, VolumeReader as _};
use crate::reconcile::SetLedger;
use crate::spec::Purpose;

/// What names standard input in place of a file.
const STDIN: &str = "-";

/// Prints the plan.
///
/// # Errors
/// If a specification is wrong, the server cannot be read, a file cannot be written, or somebody
/// interrupts.
pub(crate) async fn run(context: &Context, arguments: &PlanArguments) -> Result<Exit, CliError> {
    if arguments.out.is_some() && arguments.files.files.iter().any(|file| file == STDIN) {
        let message = "a plan from standard input cannot be saved";
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("to carry it out, the specifications are read again")
            .help("write them to a file and name that with `-f`")
            .into());
    }
    let wanted = load(
        context,
        &arguments.files,
        Rules {
            purpose: Purpose::ByExternalId,
            empty: Empty::if_pruned(arguments.choices.prune),
        },
        &arguments.set,
    )?;
    context
        .with_client(async |client| show(context, client, &wanted, arguments).await)
        .await
}

async fn show(
    context: &Context,
    api: &NomadClient,
    wanted: &Wanted,
    arguments: &PlanArguments,
) -> Result<Exit, CliError> {
    let set = match owner(context, &arguments.place, wanted.set.as_ref(), api) {
        Some((ledger, name)) => {
            let opening = open_set(ledger, &name);
            Some(context.interrupts.unless(opening).await??)
        }
        None => None,
    };
    let asked = Asked {
        wanted,
        purpose: Purpose::ByExternalId,
        parallelism: arguments.parallelism.parallelism,
        chosen: chosen(context, &arguments.choices, &wanted.volumes)?,
        documents: false,
        whole_set: false,
        set: set.as_ref().map(SetLedger::set),
    };
    let mut prepared = prepare(context, api, &asked).await?;
    if let Some(set) = &set {
        warn_of_other_owners(context, &mut prepared, set, &arguments.place).await?;
    }
    let plan = &prepared.plan;
    let remarks = remarks(plan);
    let list: Vec<Diagnostic> = remarks.iter().cloned().collect();
    let reported = Reported {
        plan,
        remarks: &list,
        sources: &wanted.sources,
        server: api.name(),
    };
    let in_its_place = write_reports(context, arguments, reported)?;
    if !in_its_place {
        let text = match arguments.output {
            ReportForm::Text => plan_text(plan, api.name(), context.clock.now()),
            ReportForm::Json => {
                let mut document = plan_json(plan, api.name(), &wanted.sources);
                document["set"] = wanted.set.as_ref().map(SetName::as_str).into();
                json_text(&document)
            }
        };
        context.printer.data(&text);
    }
    context.report(&remarks, &wanted.sources);
    if let Some(file) = &arguments.out {
        let saved = saved(context, api, &asked, &prepared, arguments)?;
        files::write_new(&context.directory, file, saved.write().as_bytes())?;
        let file = one_line(&file.display().to_string());
        context.printer.talk(&format!("saved as {file}"));
        if asked.set.is_none() {
            let why = "nobody remembers whether it was applied: that it is applied once cannot be promised without a set and its ledger";
            context.printer.talk(why);
        }
    }
    let counts = plan.counts();
    Ok(match (counts.stuck(), counts.changes()) {
        (0, 0) => Exit::Done,
        (0, _) => Exit::Changes,
        (_, _) => Exit::Blocked,
    })
}

/// Writes every report that was asked for; says whether one went to standard output.
fn write_reports(
    context: &Context,
    arguments: &PlanArguments,
    reported: Reported<'_>,
) -> Result<bool, CliError> {
    let mut in_its_place = false;
    for file in &arguments.formats {
        let text = report(file, reported);
        match file.file() {
            None => {
                context.printer.data(&text);
                in_its_place = true;
            }
            Some(path) => {
                files::write_over(
                    &context.directory,
                    path.as_ref(),
                    format!("{}\n", text.trim_end()).as_bytes(),
                )?;
            }
        }
    }
    Ok(in_its_place)
}

fn saved(
    context: &Context,
    api: &dyn VolumeApi,
    asked: &Asked<'_>,
    prepared: &Prepared,
    arguments: &PlanArguments,
) -> Result<SavedPlan, CliError> {
    let syntax = arguments
        .files
        .syntax
        .and_then(|syntax| syntax.to_possible_value());
    let origin = Origin {
        id: RandomIds.uuid(),
        made_at: context.clock.now(),
        server: api.name().to_owned(),
        server_kind: server_words(&prepared.server),
        server_version: asked.chosen.version.as_ref().map(ToString::to_string),
        files: arguments.files.files.clone(),
        syntax: syntax.map(|syntax| syntax.get_name().to_owned()),
        directory: context.directory.display().to_string(),
        namespace: context.namespace()?.map(|namespace| namespace.to_string()),
        set: asked.wanted.set.as_ref().map(ToString::to_string),
        ledger: arguments.place.ledger.to_string(),
        ledger_namespace: arguments.place.ledger_namespace.clone(),
    };
    let observed = &prepared.observation.observed;
    let chosen = &asked.chosen;
    Ok(SavedPlan::of(
        origin,
        &prepared.plan,
        observed,
        &chosen.requests,
        &chosen.approvals,
    ))
}

/// What a server is, as a saved plan remembers it.
pub(crate) fn server_words(server: &ServerKind) -> String {
    match server {
        ServerKind::Agent => "nomad-csi agent".to_owned(),
        ServerKind::Nomad(version) => format!("Nomad {version}"),
        ServerKind::Undisclosed => "Nomad".to_owned(),
    }
}
