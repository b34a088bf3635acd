//! Secrets beside specifications: a file, or references on the command line.
//!
//! Other users can read a command line, so it takes references and no values. All secrets are looked up
//! before anything is sent.

use std::path::{Path, PathBuf};

use super::args::{RedactedText, SecretArgs};
use super::command_context::CommandContext;
use super::error::CliError;
use nomad_csi_client::files::read_secret_refs;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{SecretRef, SecretRefs, Secrets};

/// Looks up the secrets, and prints warnings.
///
/// # Errors
/// If the file cannot be read, an argument is invalid, a secret has no value, or the user interrupts.
pub(super) async fn given_secrets(
    context: &CommandContext,
    arguments: &SecretArgs,
) -> Result<Secrets, CliError> {
    let mut groups = vec![];
    if let Some(file) = &arguments.secrets {
        let file = context.directory.join(file);
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        groups.push((read_file(&file)?, directory));
    }
    let typed = arguments.secret_from.iter().map(parse_reference);
    let typed: SecretRefs = typed.collect::<Result<Vec<_>, _>>()?.into_iter().collect();
    groups.push((typed, context.directory.clone()));
    let source = context.secret_source_of_arguments();
    let looking = tokio::task::spawn_blocking(move || look_up(&groups, &*source));
    let found = context.interrupts.unless_interrupted(looking).await?;
    let (secrets, warnings) = found.map_err(|error| {
        Diagnostic::error(Code::Internal, "cannot look up secrets").note(error.to_string())
    })??;
    for warning in &warnings {
        context.print_diagnostic(warning);
    }
    Ok(secrets)
}

fn read_file(file: &Path) -> Result<SecretRefs, CliError> {
    read_secret_refs(file).map_err(|reason| {
        let message = format!("cannot read secrets from `{}`", file.display());
        Diagnostic::error(Code::CliInvalidValue, message)
            .note(reason)
            .help("write one map, such as `token: {env: TOKEN}`")
            .into()
    })
}

/// Parses `KEY=env:NAME` or `KEY=file:PATH`. Never shows the source: it may be the secret itself.
fn parse_reference(argument: &RedactedText) -> Result<(String, SecretRef), CliError> {
    let pair = argument.0.split_once('=');
    let Some((key, source)) = pair.filter(|(key, _)| !key.is_empty()) else {
        return Err(Diagnostic::error(Code::CliInvalidValue, "a `--secret-from` has no key")
            .help(REFERENCE_HELP)
            .into());
    };
    let reference = match source.split_once(':') {
        Some(("env", name)) if !name.is_empty() => SecretRef::Env(name.to_owned()),
        Some(("file", path)) if !path.is_empty() => SecretRef::File(path.to_owned()),
        Some(_) | None => {
            let message = format!("`--secret-from {key}=` must name a variable or a file");
            return Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help(REFERENCE_HELP)
                .into());
        }
    };
    Ok((key.to_owned(), reference))
}

const REFERENCE_HELP: &str = "write `--secret-from KEY=env:NAME` or `--secret-from KEY=file:PATH`";

fn look_up(
    groups: &[(SecretRefs, PathBuf)],
    source: &dyn nomad_csi_client::ports::SecretSource,
) -> Result<(Secrets, Vec<Diagnostic>), Diagnostics> {
    let mut secrets = Secrets::default();
    let mut warnings = vec![];
    let mut missing = vec![];
    for (references, directory) in groups {
        let found: Result<Secrets, Vec<Diagnostics>> = references.resolve(|key, reference| {
            let found = source.resolve(reference, directory).map_err(|remark| {
                let message = format!("secret `{key}` has no value: {remark}");
                let problem = Diagnostic::error(remark.code, message);
                Diagnostics::from(problem.help(remark.code.advice()))
            })?;
            warnings.extend(found.warning.map(|remark| {
                let message = format!("secret `{key}`: {remark}");
                Diagnostic::warning(remark.code, message).help(remark.code.advice())
            }));
            Ok(found.value)
        });
        match found {
            Ok(found) => secrets = secrets.merged_with(&found),
            Err(problems) => missing.extend(problems.into_iter().flatten()),
        }
    }
    if missing.is_empty() { Ok((secrets, warnings)) } else { Err(missing.into_iter().collect()) }
}
