//! Which ledger is meant, who is at work, and sets as commands open them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::args::LedgerPlace;
use super::context::Context;
use super::env::Variable;
use super::error::CliError;
use super::exit::Exit;
use super::ui::{ago, one_line};
use crate::diagnostic::{Code, Diagnostic, Severity, nearest};
use crate::files::FileLedger;
use crate::model::{Namespace, NamespacedId, SetName};
use crate::nomad::NomadClient;
use crate::plan::{self, Actor};
use crate::ports::{IdSource, Ledger, LedgerError, LedgerFailure, LockHolder, RandomIds, SetLock};
use crate::reconcile::{self, SetLedger, hold};

/// How long a set that somebody else works on is waited for.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Where sets are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LedgerChoice {
    /// In the server's variables.
    Nomad,
    /// In a file of this machine.
    File(PathBuf),
    /// Nowhere: nothing is owned.
    Without,
}

impl LedgerChoice {
    /// Reads the value of `--ledger`.
    ///
    /// # Errors
    /// A sentence for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("file:")) {
            ("nomad", _) => Ok(Self::Nomad),
            ("none", _) => Ok(Self::Without),
            (_, Some(path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err("a ledger is `nomad`, `file:PATH` or `none`".to_owned()),
        }
    }
}

impl std::fmt::Display for LedgerChoice {
    /// As it is typed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nomad => f.write_str("nomad"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Without => f.write_str("none"),
        }
    }
}

impl From<LedgerError> for CliError {
    /// A set that somebody else works on blocks; it is not a failure.
    fn from(error: LedgerError) -> Self {
        let exit = match error.failure {
            LedgerFailure::Held(_) => Exit::Blocked,
            LedgerFailure::Conflict
            | LedgerFailure::LockLost
            | LedgerFailure::Unsupported
            | LedgerFailure::Forbidden
            | LedgerFailure::Unusable(_)
            | LedgerFailure::Unavailable
            | LedgerFailure::OutcomeUnknown => Exit::Error,
        };
        Self {
            exit,
            ..Self::from(error.diagnostic())
        }
    }
}

/// The ledger that is meant; `None` if there is to be none.
pub(super) fn ledger(
    context: &Context,
    place: &LedgerPlace,
    server: &NomadClient,
) -> Option<Arc<dyn Ledger>> {
    match &place.ledger {
        LedgerChoice::Nomad => {
            let namespace = Namespace::new(place.ledger_namespace.as_str());
            Some(Arc::new(server.ledger(namespace)))
        }
        LedgerChoice::File(path) => Some(Arc::new(FileLedger::new(context.directory.join(path)))),
        LedgerChoice::Without => None,
    }
}

/// In which ledger the set is remembered that volumes belong to; `None` if nothing is to be owned.
pub(super) fn owner(
    context: &Context,
    place: &LedgerPlace,
    set: Option<&SetName>,
    server: &NomadClient,
) -> Option<(Arc<dyn Ledger>, SetName)> {
    Some((ledger(context, place, server)?, set?.clone()))
}

/// A set that the ledger does not have. Other names are told if they can be had: it may be mistyped.
pub(super) async fn no_such_set(
    context: &Context,
    place: &LedgerPlace,
    ledger: &dyn Ledger,
    name: &SetName,
) -> CliError {
    let message = format!("there is no set {name} in {}", ledger.name());
    let problem = Diagnostic::error(Code::SetNotFound, message);
    let listing = context.interrupts.unless(ledger.sets()).await;
    let sets = listing.ok().and_then(Result::ok).unwrap_or_default();
    let problem = match nearest(name.as_str(), sets.iter().map(SetName::as_str)) {
        Some(similar) => problem.help(format!("is `{similar}` meant?")),
        None => problem,
    };
    let flags = flags(place);
    problem
        .help(format!("`nomad-csi set list{flags}` lists all sets; one exists once something was applied with it"))
        .help("another ledger may be meant: `--ledger`, `--ledger-namespace`")
        .into()
}

/// What names the ledger in a command that is to be typed; nothing if it is the one that is meant anyway.
pub(super) fn flags(place: &LedgerPlace) -> String {
    let ledger = match &place.ledger {
        LedgerChoice::Nomad => String::new(),
        LedgerChoice::File(_) | LedgerChoice::Without => format!(" --ledger {}", place.ledger),
    };
    let namespace = Namespace::default();
    match place.ledger_namespace.as_str() {
        same if same == namespace.as_str() => ledger,
        other => format!("{ledger} --ledger-namespace {other}"),
    }
}

/// The command with which a set lets a volume go.
pub(super) fn forgetting(key: &NamespacedId, set: &SetName, place: &LedgerPlace) -> String {
    let id = one_line(key.id.as_str());
    let scope = match key.namespace == Namespace::default() {
        true => String::new(),
        false => format!(" --namespace {}", one_line(key.namespace.as_str())),
    };
    format!("nomad-csi forget {id}{scope} --set {set}{}", flags(place))
}

/// The ledger, for commands that are about nothing else.
///
/// # Errors
/// If there is to be none.
pub(super) fn some_ledger(
    context: &Context,
    place: &LedgerPlace,
    server: &NomadClient,
) -> Result<Arc<dyn Ledger>, CliError> {
    ledger(context, place, server).ok_or_else(|| {
        let message = "without a ledger there are no sets";
        Diagnostic::error(Code::CliInvalidValue, message)
            .help("name the ledger with `--ledger nomad` or `--ledger file:PATH`")
            .into()
    })
}

/// Reads a set.
///
/// # Errors
/// If the ledger cannot be read or used.
pub(super) async fn open_set(
    ledger: Arc<dyn Ledger>,
    name: &SetName,
) -> Result<SetLedger, LedgerError> {
    SetLedger::open(ledger, name.clone(), Arc::new(RandomIds)).await
}

/// Reads all sets.
///
/// # Errors
/// If they cannot be listed; one that cannot be read is an error in its place.
pub(super) async fn all_sets(
    ledger: &Arc<dyn Ledger>,
) -> Result<Vec<Result<SetLedger, LedgerError>>, LedgerError> {
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    reconcile::all_sets(ledger, &ids).await
}

/// What there is to be said while a set's lock is taken, held and given back.
pub(super) enum LockNews {
    /// Somebody else holds it, and is waited for.
    Waiting(String),
    /// It was lost, or could not be given back. What was done is done.
    Ended(Diagnostic),
}

/// Says it to whoever ran a command.
pub(super) fn talk(context: &Context) -> impl Fn(LockNews) + Sync {
    |news| match news {
        LockNews::Waiting(line) => context.printer.talk(&line),
        LockNews::Ended(why) => context.say(&why),
    }
}

/// Which variables the ledger of a set is kept in; `None` if it is kept elsewhere, or not at all.
pub(super) fn in_variables(
    place: &LedgerPlace,
    set: Option<&SetName>,
) -> Option<plan::LedgerPlace> {
    match place.ledger {
        LedgerChoice::Nomad => Some(plan::LedgerPlace {
            namespace: Namespace::new(place.ledger_namespace.as_str()),
            set: set?.clone(),
        }),
        LedgerChoice::File(_) | LedgerChoice::Without => None,
    }
}

/// Takes a set's lock; somebody who holds it is waited for, and named.
///
/// # Errors
/// If he still holds it after five minutes, or the ledger cannot be used.
async fn lock_set(
    context: &Context,
    set: &SetLedger,
    command: &str,
    say: &(dyn Fn(LockNews) + Sync),
) -> Result<Box<dyn SetLock>, LedgerError> {
    let holder = LockHolder {
        by: actor(context, command),
        since: context.clock.now(),
    };
    let name = set.set().name();
    let waiting = |other: Option<&LockHolder>| {
        let who = match other {
            None => "somebody who cannot be named".to_owned(),
            Some(other) => {
                let since = ago(other.since, context.clock.now());
                one_line(&format!("{}, who began {since}", other.by))
            }
        };
        let minutes = PATIENCE.as_secs() / 60;
        say(LockNews::Waiting(format!(
            "set {name} is being worked on: waiting for {who}; given up after {minutes} minutes"
        )));
    };
    set.lock(&holder, PATIENCE, waiting).await
}

/// Works on a set while nobody else does: whoever holds its lock is waited for, then the set is read.
/// The work is handed a wish to begin nothing new, which comes with an interrupt, or when the lock is
/// lost.
///
/// # Errors
/// If the ledger cannot be used, or somebody else holds the lock for too long; and those of the work.
pub(super) async fn alone_on_set<T>(
    context: &Context,
    ledger: Arc<dyn Ledger>,
    name: &SetName,
    command: &str,
    say: &(dyn Fn(LockNews) + Sync),
    work: impl AsyncFnOnce(&mut SetLedger, &CancellationToken) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let opening = async {
        let set = open_set(ledger.clone(), name).await?;
        lock_set(context, &set, command, say).await
    };
    let lock = context.interrupts.unless(opening).await??;
    let stop = context.interrupts.stop().child_token();
    let (done, ended) = hold(lock, async |lost| {
        let working = async {
            // Whoever held the lock before may have changed the set.
            let mut set = open_set(ledger, name).await?;
            work(&mut set, &stop).await
        };
        tokio::select! {
            done = working => done,
            never = stop_when_lost(lost, &stop) => never,
        }
    })
    .await;
    if let Err(error) = ended {
        // What was done is done; if something was not begun for it, the work says so.
        let mut told = error.diagnostic().note("what was done is done");
        told.severity = Severity::Warning;
        say(LockNews::Ended(told));
    }
    done
}

async fn stop_when_lost<T>(mut lost: watch::Receiver<bool>, stop: &CancellationToken) -> T {
    if lost.wait_for(|lost| *lost).await.is_ok() {
        stop.cancel();
    }
    std::future::pending().await
}

/// Who runs this command.
pub(super) fn actor(context: &Context, command: &str) -> Actor {
    let environment = &context.environment;
    let named = |variable| environment.text(variable).ok().flatten();
    let user = named(Variable::User).or_else(|| named(Variable::WindowsUser));
    Actor {
        user: user.unwrap_or("somebody").to_owned(),
        host: (context.host_name)(),
        process: context.process_id,
        command: command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_one_of_three() {
        for (text, expected) in [
            ("nomad", Some(LedgerChoice::Nomad)),
            ("none", Some(LedgerChoice::Without)),
            ("file:a/b", Some(LedgerChoice::File("a/b".into()))),
            ("file:", None),
            ("consul", None),
            ("", None),
        ] {
            assert_eq!(LedgerChoice::parse(text).ok(), expected, "{text}");
        }
    }
}
