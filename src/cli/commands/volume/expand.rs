//! `volume expand`: a volume becomes larger, and nothing else about it changes.
//!
//! A server takes a new size only together with everything else that it stores of a volume, and what
//! is left out is erased there, depending on its version (`users` 10 and 11). So the request is the
//! volume as the server shows it, or as a file says, with another size; and where the server hides
//! something that this would erase, it is refused until a file gives it or somebody accepts the loss.
//! It goes the way of every change: planned by the server's rules, read again right before, sent once,
//! read back.

use super::find::the_volume;
use crate::cli::args::{ExpandArguments, Files, SetArgument};
use crate::cli::choices::Chosen;
use crate::cli::commands::carry_out::{Run, carry_out, look_up_aloud};
use crate::cli::commands::prepare::{Asked, Prepared, prepare};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::specs::{Empty, Rules, Wanted, load};
use crate::cli::ui::{Progress, one_line, volume_detail};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::model::{Bytes, CapacityRange, MountOptions, NamespacedId, Volume, WantedRequest};
use crate::nomad::NomadClient;
use crate::plan::{Action, HiddenField, OmittedMap, Planned, Requests};
use crate::ports::Reading;
use crate::reconcile::{Ending, Outcome};
use crate::spec::{Defaults, Purpose, Syntax, encode, parse};

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
        let set = SetArgument::default();
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
                None => as_it_is(&existing, wanted_size, largest)?,
            };
            expand(context, client, arguments, &existing, &wanted).await
        })
        .await
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

/// What the files say of that volume, and of no other.
fn of_files(mut wanted: Wanted, existing: &Volume) -> Result<Wanted, CliError> {
    let key = existing.key();
    wanted.volumes.retain(|spec| spec.key() == key);
    if wanted.volumes.is_empty() {
        let message = format!("no file names volume {key}");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help("give the file that declares the volume, or `--size` instead of files")
            .into());
    }
    Ok(wanted)
}

/// The volume as the server shows it, with another size, as a specification.
fn as_it_is(existing: &Volume, size: Bytes, largest: Bytes) -> Result<Wanted, CliError> {
    let text = encode(&request(existing, size, largest), Syntax::Json);
    let mut sources = SourceMap::default();
    let source = sources.add("the volume as the server shows it", text.as_str());
    let mut problems = Diagnostics::default();
    let defaults = Defaults::default();
    let volumes = parse(&mut sources, source, Syntax::Json, &defaults, &mut problems);
    if problems.has_errors() {
        return Err(CliError::from(problems).in_texts(sources));
    }
    Ok(Wanted {
        volumes,
        sources,
        texts: 1,
        set: None,
    })
}

/// What a server shows in place of mount flags is never sent back to it.
fn request(existing: &Volume, size: Bytes, largest: Bytes) -> WantedRequest {
    let kept = existing.requested_capacity.max;
    let max = match largest {
        Bytes::ZERO if kept >= size => kept,
        largest => largest,
    };
    let options = existing.mount_options.clone();
    let options = options.and_then(|options| match options.are_redacted() {
        false => Some(options),
        true if options.fs_type.is_empty() => None,
        true => Some(MountOptions {
            mount_flags: vec![],
            ..options
        }),
    });
    let said = |text: &String| (!text.is_empty()).then(|| text.clone());
    let map =
        |map: &std::collections::BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    WantedRequest {
        namespace: existing.namespace.clone(),
        id: existing.id.clone(),
        name: said(&existing.name),
        external_id: existing.external_id.clone(),
        plugin_id: existing.plugin_id.clone(),
        capabilities: existing.capabilities.clone(),
        capacity: CapacityRange { min: size, max },
        topology_request: existing.topology_request.clone(),
        clone_id: existing.clone_id.clone(),
        snapshot_id: existing.snapshot_id.clone(),
        mount_options: options,
        secrets: None,
        parameters: map(&existing.parameters),
        context: map(&existing.context),
    }
}

async fn expand(
    context: &Context,
    client: &NomadClient,
    arguments: &ExpandArguments,
    existing: &Volume,
    wanted: &Wanted,
) -> Result<Exit, CliError> {
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
        set: None,
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
    let resolved = look_up_aloud(context, wanted, &prepared.plan).await?;
    let progress = Progress::new(&context.printer, &prepared.plan);
    let run = Run {
        resolved: &resolved,
        command: "volume expand",
        set: None,
        saved: None,
        parallelism: 1,
        stop: context.interrupts.stop(),
        watch: &progress,
    };
    let mut carried = carry_out(context, client, &prepared, run).await?;
    drop(progress);
    Ok(tell(context, arguments, existing, carried.outcomes.pop()))
}

/// Why it is not done: everything at once.
fn problems(
    arguments: &ExpandArguments,
    prepared: &Prepared,
    planned: &Planned,
) -> Vec<Diagnostic> {
    let key = &planned.key;
    let reasons = planned.action.reasons().iter().cloned();
    let mut problems: Vec<Diagnostic> = reasons
        .map(|reason| match reason.code {
            Code::PlanHiddenValue => hidden_flags(key, reason, arguments.files.is_empty()),
            _ => reason,
        })
        .collect();
    if let Action::Waits(wait) = &planned.action
        && let Some(problem) = problems.pop()
    {
        let holders = wait.holders.iter();
        problems.push(holders.fold(problem, |problem, holder| problem.note(holder.to_string())));
    }
    match &planned.action {
        Action::Update(update) | Action::Expand(update) => {
            let fields = update.changes.iter().map(|change| change.field);
            let others: Vec<_> = fields
                .filter(|field| !field.starts_with("capacity"))
                .collect();
            if !others.is_empty() {
                let message = format!(
                    "volume {key} is not expanded: the file changes more than its size: {}",
                    others.join(", ")
                );
                let problem = Diagnostic::error(Code::PlanOtherChanges, message);
                problems.push(problem.help(
                    "`nomad-csi apply` does everything that the file says; `plan` shows it before",
                ));
            }
        }
        Action::Create(_) | Action::Register(_) | Action::Replace(_) => {
            let message = format!("volume {key} is not expanded: it is gone");
            problems.push(Diagnostic::error(Code::PlanStale, message));
        }
        Action::Unchanged
        | Action::Waits(_)
        | Action::Blocked(_)
        | Action::Deregister
        | Action::DeleteData => {}
    }
    let erases = prepared.rules.omitted_secrets == OmittedMap::Wipe;
    let accepted = arguments.accept_loss.contains(&HiddenField::Secrets);
    if arguments.files.is_empty() && erases && !accepted {
        problems.push(unknown_secrets(key));
    }
    problems
}

/// A plan's reason, as it is for somebody who wants a size and nothing else.
fn hidden_flags(key: &NamespacedId, reason: Diagnostic, is_by_size: bool) -> Diagnostic {
    let message = format!(
        "volume {key} is not expanded: this would erase its mount flags, which the server hides"
    );
    let problem = Diagnostic::error(Code::PlanHiddenValue, message);
    let accept = "if they may be lost, add `--accept-loss mount_flags`";
    if is_by_size {
        let file = format!(
            "give the file that declares the volume: `nomad-csi volume expand {} -f FILE`",
            key.id
        );
        return problem.help(file).help(accept);
    }
    Diagnostic {
        labels: reason.labels,
        ..problem.help("give them in the file, or write `mount_options {}` if there shall be none")
    }
    .help(accept)
}

/// A file can say that there are none, the server says nothing (W20).
fn unknown_secrets(key: &NamespacedId) -> Diagnostic {
    let message = format!(
        "volume {key} is not expanded: this would erase its secrets, if it has any, and the server hides whether it has"
    );
    Diagnostic::error(Code::PlanHiddenValue, message)
        .note("a new size is sent together with everything else, and Nomad replaces the stored secrets also by none")
        .help(format!(
            "give the file that declares the volume: `nomad-csi volume expand {} -f FILE`",
            key.id
        ))
        .help("if you know that it has no secrets, add `--accept-loss secrets`")
}

fn tell(
    context: &Context,
    arguments: &ExpandArguments,
    existing: &Volume,
    outcome: Option<Outcome>,
) -> Exit {
    let Some(outcome) = outcome else {
        return Exit::Done;
    };
    let mut remarks = outcome.warnings;
    let shown = one_line(&existing.key().to_string());
    let exit = match outcome.ending {
        Ending::Unchanged => {
            let line = format!("volume {shown}: is as large as that already, nothing to do");
            context.printer.talk(&line);
            Exit::Done
        }
        Ending::Done(reading) => {
            if let Some(reading) = reading {
                grown(context, arguments, existing, &reading);
            }
            Exit::Done
        }
        Ending::Stale(why) | Ending::Held(why) => {
            remarks.push(why);
            Exit::Blocked
        }
        Ending::Failed(why) => {
            remarks.push(why);
            Exit::Error
        }
        Ending::Removed | Ending::Blocked => Exit::Blocked,
        Ending::NotBegun => Exit::Interrupted,
    };
    context.report(&remarks.into_iter().collect(), &SourceMap::default());
    exit
}

/// The provider's half is done; that of the nodes comes where the volume is used.
fn grown(
    context: &Context,
    arguments: &ExpandArguments,
    existing: &Volume,
    reading: &Reading<Volume>,
) {
    let now = &reading.value;
    let key = one_line(&now.key().to_string());
    let size = |size: Bytes| {
        if size.is_zero() {
            "unknown".to_owned()
        } else {
            size.binary()
        }
    };
    context.printer.talk(&format!(
        "volume {key}: size {} -> {}",
        size(existing.capacity),
        size(now.capacity)
    ));
    let users = match now.claimants().count() {
        0 => None,
        1 => Some("1 allocation uses it".to_owned()),
        count => Some(format!("{count} allocations use it")),
    };
    if let Some(users) = users {
        context.printer.talk(&format!(
            "volume {key}: {users}; the file system grows on each node that has it mounted, which the server has done there or does when it is mounted next: check with `df` in the allocation"
        ));
    }
    let output = &arguments.output.output;
    let text = output
        .one(&reading.document)
        .unwrap_or_else(|| volume_detail(now, &context.now(), output.is_wide()));
    context.printer.data(&text);
}
