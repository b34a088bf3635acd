//! The specifications that a person means: read, checked, all problems at once.

use std::path::{Path, PathBuf};

use super::args::{Files, SetArgument, SpecSyntax};
use super::context::Context;
use super::error::CliError;
use super::exit::Exit;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, Span};
use crate::files::{self, Request};
use crate::model::{Namespace, SetName};
use crate::spec::{Defaults, Purpose, Syntax, VolumeSpec, one_set, parse_text, validate};

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

/// By which rules files are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// What the volumes are wanted for.
    pub purpose: Purpose,
    /// What is made of files that declare no volume.
    pub empty: Empty,
}

/// What is made of files that declare no volume. They must name a set, and be there, whatever is made
/// of it: files that were not found want nothing, also not that everything goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    /// Nothing is to be done with them.
    Refused,
    /// They are right, and it is remarked what they are.
    Remarked,
    /// They say what is wanted of the set: nothing.
    Taken,
    /// The same, and everything that the set owns goes.
    Pruned,
}

impl Empty {
    /// For commands that remove what no file names, if that was asked for.
    pub(super) fn if_pruned(prune: bool) -> Self {
        if prune { Self::Pruned } else { Self::Refused }
    }
}

/// Reads and checks everything that `-f` names; says what is wrong.
///
/// # Errors
/// If anything is an error: then nothing may be sent.
pub(super) fn load(
    context: &Context,
    arguments: &Files,
    rules: Rules,
    set: &SetArgument,
) -> Result<Wanted, CliError> {
    let asked = context.namespace()?;
    load_in(context, arguments, rules, set, asked.as_ref())
}

/// The same; a volume that names no namespace is in the one that was asked for.
///
/// # Errors
/// If anything is an error: then nothing may be sent.
pub(super) fn load_in(
    context: &Context,
    arguments: &Files,
    rules: Rules,
    set: &SetArgument,
    asked: Option<&Namespace>,
) -> Result<Wanted, CliError> {
    let (wanted, diagnostics) = read(context, arguments, rules, set, asked)?;
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
    rules: Rules,
    set: &SetArgument,
    asked: Option<&Namespace>,
) -> Result<(Wanted, Diagnostics), CliError> {
    let typed = set_of(set.set.as_deref())?;
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
    let (mut volumes, mut sets) = (vec![], vec![]);
    for (source, syntax) in &texts {
        let parsed = parse_text(&mut sources, *source, *syntax, &defaults, &mut diagnostics);
        volumes.extend(parsed.volumes);
        sets.extend(parsed.sets);
    }
    validate(&volumes, rules.purpose, &mut diagnostics);
    if context.global.namespace.is_some() {
        one_namespace_each(&volumes, &defaults.namespace, &mut diagnostics);
    }
    if rules.empty == Empty::Pruned {
        diagnostics = diagnostics.into_iter().map(with_way_to_empty).collect();
    }
    if volumes.is_empty() && !diagnostics.has_errors() {
        diagnostics.extend(empty(rules.empty, sets.first()));
    }
    let set = the_set(&sets, typed, &mut diagnostics);
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

/// The set that was typed.
///
/// # Errors
/// If that is no set's name.
pub(super) fn set_of(typed: Option<&str>) -> Result<Option<SetName>, CliError> {
    let parsed = |text| {
        SetName::parse(text).map_err(|problem| {
            let message = format!("`--set {text}` names no set: {problem}");
            Diagnostic::error(Code::CliInvalidValue, message).into()
        })
    };
    typed.map(parsed).transpose()
}

/// Files that cannot be read, or say nothing, never empty a set; what does is told to who may want it.
fn with_way_to_empty(problem: Diagnostic) -> Diagnostic {
    match problem.code {
        Code::FilesNoSpecs | Code::FilesNotFound | Code::SpecNoVolume => {
            problem.help("nothing is removed because files are missing: if a set is to let go of everything that it owns, give a file that says `set = \"NAME\"` and declares no volume")
        }
        _ => problem,
    }
}

/// What is said of files that name a set, as one of them does there, and declare no volume.
fn empty(empty: Empty, named: Option<&(SetName, Span)>) -> Diagnostics {
    let Some((set, place)) = named else {
        return Diagnostic::error(Code::SpecNoVolume, "no volume is declared").into();
    };
    let message = format!("the files name set {set} and declare no volume");
    let help = "`apply --prune` with these files lets go of everything that the set owns: it is deregistered, and its data stays";
    let label = "nothing stands beside it";
    match empty {
        Empty::Taken | Empty::Pruned => Diagnostics::default(),
        Empty::Remarked => Diagnostic::warning(Code::SpecNoVolume, message)
            .label(*place, label)
            .help(help)
            .into(),
        Empty::Refused => Diagnostic::error(Code::SpecNoVolume, message)
            .label(*place, label)
            .help("declare a volume; `nomad-csi volume init` writes an example")
            .help(help)
            .into(),
    }
}

/// The set that is meant: what the files say, and the flag only if they agree.
fn the_set(
    sets: &[(SetName, Span)],
    typed: Option<SetName>,
    diagnostics: &mut Diagnostics,
) -> Option<SetName> {
    let written = one_set(sets, diagnostics).cloned();
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
