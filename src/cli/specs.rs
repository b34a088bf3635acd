//! The specifications that a person means: read, checked, all problems at once.

use std::path::{Path, PathBuf};

use super::args::{Files, SetArgument, SpecSyntax};
use super::context::Context;
use super::error::CliError;
use super::exit::Exit;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use crate::files::{self, Request};
use crate::model::{Namespace, SetName};
use crate::spec::{Defaults, Purpose, Syntax, VolumeSpec, parse, validate};

/// What is wanted, and the texts that say so.
pub(super) struct Wanted {
    /// The volumes, in the order of the files.
    pub volumes: Vec<VolumeSpec>,
    /// The texts.
    pub sources: SourceMap,
    /// How many texts there are.
    pub texts: usize,
    /// The set that the volumes belong to, if anything names one.
    pub set: Option<SetName>,
}

impl Wanted {
    /// Where relative paths in a specification start from: the directory of its file, or that of the
    /// command if it came from standard input.
    pub(super) fn directory_of(&self, context: &Context, spec: &VolumeSpec) -> PathBuf {
        let name = Path::new(self.sources.name(spec.span.source));
        let parent = name.parent().unwrap_or(Path::new(""));
        context.directory.join(parent)
    }
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
    set: &SetArgument,
) -> Result<Wanted, CliError> {
    let asked = context.namespace()?;
    load_in(context, arguments, purpose, set, asked.as_ref())
}

/// The same; a volume that names no namespace is in the one that was asked for.
///
/// # Errors
/// If anything is an error: then nothing may be sent.
pub(super) fn load_in(
    context: &Context,
    arguments: &Files,
    purpose: Purpose,
    set: &SetArgument,
    asked: Option<&Namespace>,
) -> Result<Wanted, CliError> {
    let (wanted, diagnostics) = read(context, arguments, purpose, set, asked)?;
    context.report(&diagnostics, &wanted.sources);
    if diagnostics.has_errors() {
        return Err(CliError::said(Exit::Error));
    }
    Ok(wanted)
}

/// Reads and checks everything that `-f` names; says nothing. A volume that names no namespace is in
/// the one that was asked for.
///
/// # Errors
/// If the namespace or the set that was asked for cannot be one.
pub(super) fn read(
    context: &Context,
    arguments: &Files,
    purpose: Purpose,
    set: &SetArgument,
    asked: Option<&Namespace>,
) -> Result<(Wanted, Diagnostics), CliError> {
    let typed = set.set.as_deref().map(typed_set).transpose()?;
    let defaults = Defaults {
        namespace: one_namespace(asked)?,
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
    let set = one_set(&volumes, typed, &mut diagnostics);
    diagnostics.sort();
    Ok((
        Wanted {
            set,
            volumes,
            sources,
            texts: texts.len(),
        },
        diagnostics,
    ))
}

fn typed_set(text: &str) -> Result<SetName, CliError> {
    SetName::parse(text).map_err(|problem| {
        let message = format!("`--set {text}` names no set: {problem}");
        Diagnostic::error(Code::CliInvalidValue, message).into()
    })
}

/// The set that is meant: what the files say, and the flag only if they agree.
fn one_set(
    volumes: &[VolumeSpec],
    typed: Option<SetName>,
    diagnostics: &mut Diagnostics,
) -> Option<SetName> {
    let written = volumes.iter().find_map(|spec| spec.set.clone());
    match (written, typed) {
        (Some((written, place)), Some(typed)) if written != typed => {
            let message = format!("the file names set `{written}`, and `--set {typed}` was typed");
            diagnostics.push(
                Diagnostic::error(Code::CliSetConflict, message)
                    .label(place, "")
                    .help("leave out `--set`, or make the two agree"),
            );
            None
        }
        (Some((written, _)), _) => Some(written),
        (None, typed) => typed,
    }
}

/// A volume is in one namespace.
fn one_namespace(asked: Option<&Namespace>) -> Result<Namespace, CliError> {
    match asked {
        None => Ok(Namespace::default()),
        Some(namespace) if namespace.as_str() == Namespace::ALL => {
            let message = "a volume cannot be in all namespaces";
            Err(Diagnostic::error(Code::CliInvalidValue, message)
                .note("the namespace `*` comes from `--namespace`, NOMAD_NAMESPACE or the context")
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
