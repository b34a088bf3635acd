//! `drift`: what is otherwise on the server than it was left; changes nothing anywhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cli::args::{DriftArguments, LedgerPlace, ReportForm};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{ledger, open_set};
use crate::cli::specs::{Empty, Rules, Wanted, load};
use crate::cli::ui::{DriftShown, drift_json, drift_text, json_text};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::nomad::NomadClient;
use crate::plan::{LedgerSet, VolumeDrift};
use crate::ports::VolumeReader;
use crate::reconcile::{DriftQuery, look_for_drift};
use crate::spec::Purpose;

/// Looks for drift and prints it.
///
/// # Errors
/// If a specification is wrong, the server or the ledger cannot be read, or somebody interrupts.
pub(crate) async fn run(context: &Context, arguments: &DriftArguments) -> Result<Exit, CliError> {
    let wanted = load(
        context,
        &arguments.files,
        Rules {
            purpose: Purpose::ByExternalId,
            empty: Empty::Taken,
        },
        &arguments.set,
    )?;
    context
        .with_client(async |client| {
            let reading = async {
                let recorded = recorded(context, client, &wanted, &arguments.place).await?;
                show(context, client, &wanted, &recorded, arguments).await
            };
            context.interrupts.unless(reading).await?
        })
        .await
}

/// What is remembered of the set, or why nothing is.
pub(crate) enum Recorded {
    /// Its entry in the ledger.
    Set(Box<LedgerSet>),
    /// There is none, because of this.
    Nothing(Diagnostic),
}

impl Recorded {
    pub(crate) fn set(&self) -> Option<&LedgerSet> {
        match self {
            Self::Set(set) => Some(set),
            Self::Nothing(_) => None,
        }
    }

    fn remark(&self) -> Option<&Diagnostic> {
        match self {
            Self::Set(_) => None,
            Self::Nothing(why) => Some(why),
        }
    }
}

/// Reads what is remembered.
///
/// # Errors
/// If a set is named and the ledger cannot be read.
pub(crate) async fn recorded(
    context: &Context,
    client: &NomadClient,
    wanted: &Wanted,
    place: &LedgerPlace,
) -> Result<Recorded, CliError> {
    let Some(name) = &wanted.set else {
        let why = unrecorded("no set is named");
        let why = why.help("name the set that the files are applied with: `--set NAME`, or `set = \"NAME\"` beside the volumes");
        return Ok(Recorded::Nothing(why));
    };
    let Some(ledger) = ledger(context, place, client) else {
        let why = unrecorded("there is to be no ledger (`--ledger none`)");
        return Ok(Recorded::Nothing(why));
    };
    let set = open_set(Arc::clone(&ledger), name).await?;
    if set.exists() {
        return Ok(Recorded::Set(Box::new(set.set().clone())));
    }
    let why = unrecorded(&format!("set {name} is not in {}", ledger.name()));
    let why =
        why.help("it is there once something was applied with it; `nomad-csi set list` lists all");
    Ok(Recorded::Nothing(why))
}

fn unrecorded(why: &str) -> Diagnostic {
    let message = format!("{why}, so the volumes are held against the files");
    Diagnostic::warning(Code::DriftNoRecord, message).note(
        "what differs may have been changed on the server or in the files: without a record of what was applied nobody can tell",
    )
}

/// What is asked here cannot write: that is all that its type allows.
async fn show(
    context: &Context,
    reader: &dyn VolumeReader,
    wanted: &Wanted,
    recorded: &Recorded,
    arguments: &DriftArguments,
) -> Result<Exit, CliError> {
    let ignore: BTreeSet<String> = arguments.ignore.iter().cloned().collect();
    let query = DriftQuery {
        wanted: &wanted.volumes,
        set: recorded.set(),
        ignore: &ignore,
        parallelism: usize::from(arguments.parallelism.parallelism),
    };
    let found = look_for_drift(reader, query).await?;
    let remarks: Diagnostics = recorded
        .remark()
        .into_iter()
        .chain(&found.remark)
        .cloned()
        .collect();
    let shown = DriftShown {
        volumes: &found.volumes,
        server: reader.name(),
        set: recorded.set().map(LedgerSet::name),
        sources: &wanted.sources,
    };
    context.printer.data(&match arguments.output {
        ReportForm::Text => drift_text(shown, context.clock.now()),
        ReportForm::Json => json_text(&drift_json(shown, &remarks)),
    });
    context.report(&remarks, &wanted.sources);
    if found.volumes.iter().any(VolumeDrift::is_drift) {
        Ok(Exit::Changes)
    } else {
        Ok(Exit::Done)
    }
}
