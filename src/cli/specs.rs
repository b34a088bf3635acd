//! The specifications that a person means: read, checked, all problems at once.

use super::args::{Files, SpecSyntax};
use super::context::Context;
use super::error::CliError;
use super::exit::Exit;
use super::settings::namespace;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::files::{self, Request};
use crate::model::Namespace;
use crate::spec::{Defaults, Purpose, Syntax, VolumeSpec, parse, validate};

/// What is wanted, and the texts that say so.
pub(super) struct Wanted {
    /// The volumes, in the order of the files.
    pub volumes: Vec<VolumeSpec>,
    /// The texts.
    pub sources: SourceMap,
    /// How many texts there are.
    pub texts: usize,
}

impl From<SpecSyntax> for Syntax {
    fn from(syntax: SpecSyntax) -> Self {
        match syntax {
            SpecSyntax::Hcl => Self::Hcl,
            SpecSyntax::Yaml => Self::Yaml,
            SpecSyntax::Json => Self::Json,
        }
    }
}

/// Reads and checks everything that `-f` names; says what is wrong.
///
/// # Errors
/// If anything is an error: then nothing may be sent.
pub(super) fn load(
    context: &Context,
    arguments: &Files,
    purpose: Purpose,
) -> Result<Wanted, CliError> {
    let (wanted, diagnostics) = read(context, arguments, purpose)?;
    context.report(&diagnostics, &wanted.sources);
    if diagnostics.has_errors() {
        return Err(CliError::said(Exit::Error));
    }
    Ok(wanted)
}

/// Reads and checks everything that `-f` names; says nothing.
///
/// # Errors
/// If the namespace that was asked for cannot be one.
pub(super) fn read(
    context: &Context,
    arguments: &Files,
    purpose: Purpose,
) -> Result<(Wanted, Diagnostics), CliError> {
    let asked = namespace(&context.global, &context.environment)?;
    let defaults = Defaults {
        namespace: one_namespace(asked.as_ref())?,
    };
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::default();
    let texts = context.stdin.with_reader(|stdin| {
        let mut request = Request {
            arguments: &arguments.files,
            base_directory: &context.directory,
            stdin,
            syntax: arguments.syntax.map(Syntax::from),
        };
        files::read(&mut request, &mut sources, &mut diagnostics)
    });
    let mut volumes = vec![];
    for (source, syntax) in &texts {
        volumes.extend(parse(
            &mut sources,
            *source,
            *syntax,
            &defaults,
            &mut diagnostics,
        ));
    }
    validate(&volumes, purpose, &mut diagnostics);
    if context.global.namespace.is_some() {
        one_namespace_each(&volumes, &defaults.namespace, &mut diagnostics);
    }
    diagnostics.sort();
    Ok((
        Wanted {
            volumes,
            sources,
            texts: texts.len(),
        },
        diagnostics,
    ))
}

/// A volume is in one namespace.
fn one_namespace(asked: Option<&Namespace>) -> Result<Namespace, CliError> {
    match asked {
        None => Ok(Namespace::default()),
        Some(namespace) if namespace.as_str() == Namespace::ALL => {
            let message = "a volume cannot be in all namespaces";
            Err(Diagnostic::error(Code::CliInvalidValue, message)
                .note("the namespace `*` comes from `--namespace` or NOMAD_NAMESPACE")
                .help("name one namespace, or write it in the specifications")
                .into())
        }
        Some(namespace) => Ok(namespace.clone()),
    }
}

/// Nomad's CLI lets the file win without a word; whoever typed a namespace meant it (`users` 25).
fn one_namespace_each(volumes: &[VolumeSpec], typed: &Namespace, diagnostics: &mut Diagnostics) {
    for spec in volumes {
        let written = &spec.request.namespace;
        if spec.namespace_given && written != typed {
            let message = format!(
                "volume {} is in namespace {written}, and `--namespace {typed}` was typed",
                spec.request.id
            );
            diagnostics.push(
                Diagnostic::error(Code::CliNamespaceConflict, message)
                    .label(spec.field_span("namespace"), "")
                    .help("leave out `--namespace`, or make the two agree"),
            );
        }
    }
}
