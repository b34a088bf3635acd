//! `auth check`: what the token may do, and what it lacks for what the files want.

use std::collections::BTreeSet;

use crate::cli::args::{AuthCheck, Files, ReportForm};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::specs::{Empty, Rules, Wanted, load};
use crate::cli::ui::{Checked, auth_json, auth_text, json_text};
use crate::diagnostic::Diagnostics;
use crate::model::Namespace;
use crate::nomad::NomadClient;
use crate::plan::{LedgerPlace, Needs, Step, missing_permissions};
use crate::ports::{AccessReader as _, TokenOwner, VolumeReader as _};
use crate::reconcile::{Access, access};
use crate::spec::Purpose;

/// Asks and reports; changes nothing.
///
/// # Errors
/// If a specification is wrong, or the server does not say what the token may do.
pub(crate) async fn check(context: &Context, arguments: &AuthCheck) -> Result<Exit, CliError> {
    let wanted = if arguments.files.is_empty() {
        None
    } else {
        let files = Files {
            files: arguments.files.clone(),
            syntax: arguments.syntax,
        };
        Some(load(
            context,
            &files,
            Rules {
                purpose: Purpose::ByExternalId,
                empty: Empty::Refused,
            },
            &arguments.set,
        )?)
    };
    context
        .with_client(async |client| report(context, client, wanted.as_ref(), arguments).await)
        .await
}

async fn report(
    context: &Context,
    client: &NomadClient,
    wanted: Option<&Wanted>,
    arguments: &AuthCheck,
) -> Result<Exit, CliError> {
    let asking = async {
        let access = access(client).await?;
        let needs = match wanted {
            Some(wanted) => of_files(wanted, arguments),
            None => everything(&namespaces(context, client, &access).await?),
        };
        Ok::<_, CliError>((access, needs))
    };
    let (access, needs) = context.interrupts.unless(asking).await??;
    let problem = missing_permissions(&needs, &access.grants).filter(|_| wanted.is_some());
    let checked = Checked {
        server: client.name(),
        access: &access,
        needs: &needs,
        wanted: wanted.is_some(),
    };
    context.printer.data(&match arguments.output {
        ReportForm::Text => auth_text(&checked),
        ReportForm::Json => json_text(&auth_json(&checked)),
    });
    let Some(problem) = problem else {
        return Ok(Exit::Done);
    };
    if arguments.output == ReportForm::Text {
        context.report(&Diagnostics::from(problem), &Default::default());
    }
    Ok(Exit::Blocked)
}

/// What planning and applying these files needs.
fn of_files(wanted: &Wanted, arguments: &AuthCheck) -> Needs {
    let mut needs = Needs::default();
    for spec in &wanted.volumes {
        needs.add(Step::Observe, &spec.request.namespace);
        needs.add(Step::Write, &spec.request.namespace);
    }
    if let Some(set) = wanted.set.clone() {
        let namespace = Namespace::new(arguments.ledger_namespace.as_str());
        needs.add_ledger(&LedgerPlace { namespace, set });
    }
    needs
}

/// Everything that volumes can need in these namespaces.
fn everything(namespaces: &BTreeSet<Namespace>) -> Needs {
    const STEPS: [Step; 7] = [
        Step::List,
        Step::Observe,
        Step::Write,
        Step::Deregister,
        Step::Delete,
        Step::Snapshot,
        Step::Detach,
    ];
    let mut needs = Needs::default();
    for namespace in namespaces {
        STEPS.iter().for_each(|step| needs.add(*step, namespace));
    }
    needs
}

/// The namespace that was asked for; else those in which the token may do anything.
async fn namespaces(
    context: &Context,
    client: &NomadClient,
    access: &Access,
) -> Result<BTreeSet<Namespace>, CliError> {
    let named = context.namespace()?;
    if let Some(named) = named.filter(|named| named.as_str() != Namespace::ALL) {
        return Ok([named].into());
    }
    match access.owner {
        // Without an ACL no namespace is closed, and few servers have more than one.
        TokenOwner::Anyone => Ok([Namespace::default()].into()),
        TokenOwner::Management { .. } | TokenOwner::Client { .. } | TokenOwner::Workload => {
            let mut found = client.namespaces().await?;
            found.insert(Namespace::default());
            Ok(found)
        }
    }
}
