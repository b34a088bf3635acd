//! `auth check`: what the token may do, and what it lacks for what the files want.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};

use crate::cli::args::{
    FileArgs, LEDGER_NAMESPACE_HELP, REPORT_FORMAT_HELP, ReportFormat, SetArgs,
};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::specs::{EmptyFiles, LoadOptions, load_specifications};
use crate::cli::ui::{AuthReport, auth_json, auth_text, json_text};
use nomad_csi_client::ports::{ClusterApi, TokenKind};
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_client::reconcile::{Access, access};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_plan::{AclOperation, LedgerLocation, RequiredPermissions};
use nomad_csi_spec::Purpose;

/// The subcommands of `auth`.
#[derive(Subcommand, Debug)]
pub(crate) enum AuthCommand {
    /// Check the permissions of the token
    ///
    /// With files, reports whether the token can plan and apply them, what is missing, and the
    /// smallest sufficient policy (exit code 3 if a permission is missing). Without files, reports
    /// what the token can do with volumes in the selected namespace, or in each namespace that it
    /// can read. Changes nothing.
    #[command(
        after_long_help = "Examples:\n  nomad-csi auth check\n  nomad-csi auth check volumes/ --set web"
    )]
    Check(AuthCheckArgs),
}

/// Arguments of `auth check`.
#[derive(Args, Debug)]
pub(crate) struct AuthCheckArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    /// The set of the volumes.
    #[command(flatten)]
    pub set: SetArgs,
    #[arg(long, value_name = "NAME", default_value = "default", help = LEDGER_NAMESPACE_HELP)]
    pub ledger_namespace: String,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
}

/// Prints the token's permissions. Changes nothing.
///
/// # Errors
/// If a specification has an error, or the server does not report the permissions.
pub(crate) async fn check(
    context: &CommandContext,
    arguments: &AuthCheckArgs,
) -> Result<Exit, CliError> {
    let desired = if arguments.files.all().is_empty() {
        None
    } else {
        Some(load_specifications(
            context,
            &arguments.files,
            LoadOptions {
                purpose: Purpose::ByExternalId,
                empty_files: EmptyFiles::Rejected,
                share: None,
                deny: &[],
                policies: None,
                refuses_files: false,
                plugins: None,
            },
            &arguments.set,
        )?)
    };
    context
        .with_cluster(async |client| report(context, client, desired.as_ref(), arguments).await)
        .await
}

async fn report(
    context: &CommandContext,
    client: &dyn ClusterApi,
    desired: Option<&Specifications>,
    arguments: &AuthCheckArgs,
) -> Result<Exit, CliError> {
    let asking = async {
        let access = access(client).await?;
        let needs = match desired {
            Some(desired) => of_files(desired, arguments),
            None => everything(&namespaces(context, client, &access).await?),
        };
        Ok::<_, CliError>((access, needs))
    };
    let (access, needs) = context.interrupts.unless_interrupted(asking).await??;
    let problem = access.missing(&needs).filter(|_| desired.is_some());
    let checked = AuthReport {
        server: client.name(),
        access: &access,
        needs: &needs,
        is_required: desired.is_some(),
    };
    context.printer.print_result(&match arguments.output {
        ReportFormat::Text => auth_text(&checked),
        ReportFormat::Json => json_text(&auth_json(&checked)),
    });
    let Some(problem) = problem else {
        return Ok(Exit::Done);
    };
    if arguments.output == ReportFormat::Text {
        context.print_diagnostics(&Diagnostics::from(problem), &Default::default());
    }
    Ok(Exit::Blocked)
}

/// Returns the permissions to plan and apply the files.
fn of_files(desired: &Specifications, arguments: &AuthCheckArgs) -> RequiredPermissions {
    let location = desired.set.clone().map(|set| LedgerLocation {
        namespace: Namespace::new(arguments.ledger_namespace.as_str()),
        set,
    });
    desired.permissions_to_apply(location.as_ref())
}

/// Returns all permissions for volumes in these namespaces.
fn everything(namespaces: &BTreeSet<Namespace>) -> RequiredPermissions {
    const STEPS: [AclOperation; 7] = [
        AclOperation::List,
        AclOperation::Observe,
        AclOperation::Write,
        AclOperation::Deregister,
        AclOperation::Delete,
        AclOperation::Snapshot,
        AclOperation::Detach,
    ];
    let mut needs = RequiredPermissions::default();
    for namespace in namespaces {
        STEPS.iter().for_each(|step| needs.add(*step, namespace));
    }
    needs.add_version();
    needs
}

/// Returns the selected namespace, or those in which the token has any permission.
async fn namespaces(
    context: &CommandContext,
    client: &dyn ClusterApi,
    access: &Access,
) -> Result<BTreeSet<Namespace>, CliError> {
    let named = context.namespace()?;
    if let Some(named) = named.filter(|named| named.as_str() != Namespace::ALL) {
        return Ok([named].into());
    }
    match access.owner {
        // Without ACLs every namespace is accessible, and few servers have more than one.
        TokenKind::AclDisabled => Ok([Namespace::default()].into()),
        TokenKind::Management { .. }
        | TokenKind::Client { .. }
        | TokenKind::Anonymous
        | TokenKind::Workload => {
            let mut found = client.namespaces().await?;
            found.insert(Namespace::default());
            Ok(found)
        }
    }
}
