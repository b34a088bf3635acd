//! `render`: prints the volumes that specifications declare, with every expression evaluated.
//!
//! What is printed can be read again, and declares the same volumes. A secret that is a reference stays one. Secrets with
//! values and mount flags are printed as `sensitive`, which no command accepts.

use std::path::Path;

use clap::Args;

use crate::cli::args::{FileArgs, SetArgs, SpecSyntax, required_paths};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::settings::namespace;
use crate::cli::specs::{EmptyFiles, LoadOptions, read_specifications};
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
use nomad_csi_model::{SecretRef, SecretRefs};
use nomad_csi_spec::{Purpose, Syntax, VolumeSpec, WritableSpec, encode_all, encode_values};

/// Arguments of `render`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct RenderArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    /// Syntax of the output
    #[arg(short, long, value_name = "SYNTAX", default_value = "hcl")]
    pub output: SpecSyntax,
    /// Add a comment for each field that comes from a class or from `defaults`
    #[arg(long)]
    pub origins: bool,
    /// Print the values of variables instead, as a file of variables
    ///
    /// A comment says where each value comes from, except in JSON. A value that may be a secret is only named.
    #[arg(long, conflicts_with = "origins")]
    pub values: bool,
}

/// Prints volumes.
///
/// # Errors
/// If the selected namespace is invalid, or JSON is to have comments.
pub(crate) fn render_files(
    context: &CommandContext,
    arguments: &RenderArgs,
) -> Result<Exit, CliError> {
    if arguments.origins && arguments.output == SpecSyntax::Json {
        let message = "cannot print origins in JSON: it has no comments";
        let problem = Diagnostic::error(Code::CliInvalidValue, message);
        return Err(problem.help("use `-o yaml` or `-o hcl`").into());
    }
    // The config file is not read: it concerns servers.
    let asked = namespace(&context.global, &context.environment, None)?;
    let (specifications, diagnostics) = read_specifications(
        context,
        &arguments.files,
        LoadOptions {
            purpose: Purpose::ByExternalId,
            empty_files: EmptyFiles::Warned,
            share: None,
            deny: &[],
            policies: None,
            refuses_files: false,
            plugins: None,
        },
        &SetArgs::default(),
        asked.as_ref(),
    )?;
    context.print_diagnostics(&diagnostics, &specifications.sources);
    if diagnostics.has_errors() {
        return Ok(Exit::Error);
    }
    let syntax = Syntax::from(arguments.output);
    if arguments.values {
        let Specifications { variables, sources, .. } = &specifications;
        context.printer.print_result(&encode_values(variables, sources, syntax));
        return Ok(Exit::Done);
    }
    let volumes = specifications.volumes.iter();
    let volumes: Vec<WritableSpec> =
        volumes.map(|spec| written(spec, &specifications, arguments.origins)).collect();
    context.printer.print_result(&encode_all(&volumes, specifications.set.as_ref(), syntax));
    Ok(Exit::Done)
}

fn written(
    spec: &VolumeSpec,
    specifications: &Specifications,
    shows_origins: bool,
) -> WritableSpec {
    let mut written = WritableSpec::without_values(spec);
    if let Some(secrets) = written.request.secrets.take() {
        let secret = |(key, from): (&str, &SecretRef)| {
            let from = match from {
                SecretRef::File(path) => {
                    SecretRef::File(from_here(specifications, spec.secret_span(key), path))
                }
                SecretRef::Literal(_)
                | SecretRef::Evaluated(_)
                | SecretRef::Env(_)
                | SecretRef::NomadVar { .. } => from.clone(),
            };
            (key.to_owned(), from)
        };
        let secrets: SecretRefs = secrets.iter().map(secret).collect();
        written.request.secrets = Some(secrets);
    }
    if shows_origins {
        written.comments = origins(spec, specifications);
    }
    written
}

/// Returns a path that starts at the directory of its file as one that starts where the command runs.
fn from_here(specifications: &Specifications, place: Span, path: &str) -> String {
    let name = Path::new(specifications.sources.name(place.source));
    let joined = name.parent().unwrap_or(Path::new("")).join(path);
    joined.to_string_lossy().into_owned()
}

/// Returns a line for each field that is not written in the volume's own block.
fn origins(spec: &VolumeSpec, specifications: &Specifications) -> Vec<String> {
    let Some(origin) = &spec.origin else {
        return vec![];
    };
    let sources = &specifications.sources;
    let line = |(field, place): (&&str, &Span)| {
        let layer = origin.layer_at(*place)?;
        let (file, line) = (sources.name(place.source), sources.location(*place).line);
        Some(match &layer.class {
            Some(class) => format!("{field}: from class `{class}`, {file}:{line}"),
            None => format!("{field}: from `defaults`, {file}:{line}"),
        })
    };
    spec.fields.iter().filter_map(line).collect()
}
