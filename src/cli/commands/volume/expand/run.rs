//! From arguments to a plan of one volume, in its set's name if one owns it, and to how that ended.

use tokio_util::sync::CancellationToken;

use super::problems::problems;
use super::told::tell;
use super::wanted::{as_it_is, of_files};
use crate::cli::args::{ExpandArguments, Files, LedgerPlace, SetArgument};
use crate::cli::choices::Chosen;
use crate::cli::commands::carry_out::{Carried, Run, carry_out, look_up_aloud};
use crate::cli::commands::prepare::{Asked, prepare};
use crate::cli::commands::volume::find::the_volume;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{alone_on_set, flags, open_set, owner, talk};
use crate::cli::specs::{Empty, Rules, Wanted, load, set_of};
use crate::cli::ui::{Progress, one_line};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Bytes, NamespacedId, SetName, Volume};
use crate::nomad::NomadClient;
use crate::plan::{Action, HiddenField, Requests};
use crate::reconcile::{Applied, SetLedger};
use crate::spec::Purpose;

/// The word that stands in ledgers.
const EXPAND: &str = "volume expand";

/// Expands a volume.
///
/// # Errors
/// If there is no such volume, something that is given cannot be used, or the server says no.
pub(crate) async fn run(context: &Context, arguments: &ExpandArguments) -> Result<Exit, CliError> {
    let from_files = if arguments.files.is_empty() {
        None
    } else {
        let files = Files {
            files: arguments.files.clone(),
            syntax: arguments.syntax,
        };
        let set = SetArgument {
            set: arguments.set.clone(),
        };
        let rules = Rules {
            purpose: Purpose::ByExternalId,
            empty: Empty::Refused,
        };
        Some(load(context, &files, rules, &set)?)
    };
    let wanted_size = parsed_size("--size", arguments.size.as_deref())?;
    let largest = parsed_size("--max-size", arguments.max_size.as_deref())?;
    context
        .with_client(async |client| {
            let existing = the_volume(context, client, &arguments.id).await?;
            let wanted = match from_files {
                Some(wanted) => of_files(wanted, &existing)?,
                None if is_large_enough(context, &existing, wanted_size) => return Ok(Exit::Done),
                None => Wanted {
                    set: set_of(arguments.set.as_deref())?,
                    ..as_it_is(&existing, wanted_size, largest)?
                },
            };
            let order = Order {
                context,
                client,
                arguments,
                existing: &existing,
                wanted: &wanted,
            };
            order.in_its_set().await
        })
        .await
}

/// What is to be done.
struct Order<'a> {
    context: &'a Context,
    client: &'a NomadClient,
    arguments: &'a ExpandArguments,
    existing: &'a Volume,
    wanted: &'a Wanted,
}

impl Order<'_> {
    /// Carries it out, and where a set owns the volume, in the set's name: so the new size is what was
    /// applied, and no drift. It takes no volume into a set, since it does not do all that a file says.
    async fn in_its_set(&self) -> Result<Exit, CliError> {
        let (context, key) = (self.context, self.existing.key());
        let place = &self.arguments.place;
        let owned = owner(context, place, self.wanted.set.as_ref(), self.client);
        let Some((ledger, name)) = owned else {
            let stop = context.interrupts.stop();
            return expand(self, None, stop).await;
        };
        let opening = open_set(ledger.clone(), &name);
        let set = context.interrupts.unless(opening).await??;
        if set.set().ownership(&key).is_none() {
            if self.arguments.set.is_some() {
                return Err(not_owned(&name, &key, &set, place).into());
            }
            let volume = one_line(&key.to_string());
            let line = format!(
                "volume {volume}: not owned by set {name}, which remembers nothing of this"
            );
            context.printer.talk(&line);
            return expand(self, None, context.interrupts.stop()).await;
        }
        let say = talk(context);
        let working = async |set: &mut SetLedger, stop: &CancellationToken| {
            let still = set.set().ownership(&key).is_some();
            expand(self, still.then_some(set), stop).await
        };
        alone_on_set(context, ledger, &name, EXPAND, &say, working).await
    }
}

/// The wrong set may be meant, or the wrong volume.
fn not_owned(
    name: &SetName,
    key: &NamespacedId,
    set: &SetLedger,
    place: &LedgerPlace,
) -> Diagnostic {
    let volume = one_line(&key.to_string());
    let message = format!("volume {volume} is not expanded: set {name} does not own it");
    Diagnostic::error(Code::SetNotOwned, message)
        .note(format!("the set was looked for in {}", set.ledger_name()))
        .help(format!(
            "`nomad-csi set show {name}{}` lists what it owns",
            flags(place)
        ))
        .help("without `--set` the volume is expanded, and no set remembers it")
}

fn parsed_size(flag: &str, text: Option<&str>) -> Result<Bytes, CliError> {
    let Some(text) = text else {
        return Ok(Bytes::ZERO);
    };
    Bytes::parse(text).map_err(|error| {
        let message = format!("`{flag} {}` cannot be used", one_line(text));
        Diagnostic::error(Code::CliInvalidValue, message)
            .note(error.to_string())
            .help("write digits and a unit: `20GiB`, `20G`")
            .into()
    })
}

fn is_large_enough(context: &Context, existing: &Volume, size: Bytes) -> bool {
    let is = !existing.capacity.is_zero() && existing.capacity >= size;
    if is {
        context.printer.talk(&one_line(&format!(
            "volume {}: has {} already, nothing to do; volumes never shrink",
            existing.key(),
            existing.capacity.binary()
        )));
    }
    is
}

async fn expand(
    order: &Order<'_>,
    set: Option<&mut SetLedger>,
    stop: &CancellationToken,
) -> Result<Exit, CliError> {
    let Order {
        context,
        client,
        arguments,
        existing,
        wanted,
    } = *order;
    let key = existing.key();
    let accepted = arguments.accept_loss.iter();
    let requests = Requests {
        accept_loss: accepted.map(|field| (*field, key.clone())).collect(),
        ..Requests::default()
    };
    let asked = Asked {
        wanted,
        purpose: Purpose::ByExternalId,
        parallelism: 1,
        chosen: Chosen {
            version: arguments.server_version.clone(),
            requests,
            ..Chosen::default()
        },
        documents: true,
        whole_set: false,
        set: set.as_deref().map(SetLedger::set),
    };
    let prepared = prepare(context, client, &asked).await?;
    let Some(planned) = prepared.plan.volumes.first() else {
        return Ok(Exit::Done);
    };
    let problems = problems(arguments, &prepared, planned);
    if !problems.is_empty() {
        context.report(&problems.into_iter().collect(), &wanted.sources);
        return Err(CliError::said(Exit::Blocked));
    }
    let accepted = |field| arguments.accept_loss.contains(&field);
    let warned = planned.warnings.iter().filter(|warning| {
        warning.code != Code::PlanErasesSecrets || !accepted(HiddenField::Secrets)
    });
    context.report(&warned.cloned().collect(), &wanted.sources);
    // What the server has is nothing that somebody applied.
    let by_size = arguments.files.is_empty();
    let resolved = look_up_aloud(context, wanted, &prepared.plan).await?;
    let progress = Progress::new(&context.printer, &prepared.plan);
    let run = Run {
        resolved: &resolved,
        command: EXPAND,
        set: set.filter(|_| !by_size || planned.action != Action::Unchanged),
        applied: if by_size { Applied::Size } else { Applied::All },
        saved: None,
        parallelism: 1,
        stop,
        watch: &progress,
    };
    let Carried { mut outcomes, news } = carry_out(context, client, &prepared, run).await?;
    drop(progress);
    for line in news {
        context.printer.talk(&line);
    }
    Ok(tell(context, arguments, existing, outcomes.pop()))
}
