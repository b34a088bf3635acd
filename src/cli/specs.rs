//! Reads and validates specification files, and collects their problems.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::args::{FileArgs, SetArgs, SpecSyntax};
use super::command_context::CommandContext;
use super::env::Variable;
use super::error::CliError;
use super::exit::Exit;
use super::ui::Place;
use nomad_csi_client::files::{self, SetRun, SpecFilesRequest};
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_model::diagnostic::{
    Code, Diagnostic, Diagnostics, Severity, SourceId, SourceMap, Span,
};
use nomad_csi_model::{Namespace, SetName};
use nomad_csi_plan::{DenyRule, PluginSnapshots, Policies, SnapshotUse, snapshot_problems};
use nomad_csi_spec::{
    Defaults, EmptyBlock, GivenVariables, Parsed, Purpose, Syntax, VolumeSpec,
    declares_host_volumes, read, second_registrations, single_set, validate,
};

impl From<SpecSyntax> for Syntax {
    fn from(syntax: SpecSyntax) -> Self {
        match syntax {
            SpecSyntax::Hcl => Self::Hcl,
            SpecSyntax::Yaml => Self::Yaml,
            SpecSyntax::Json => Self::Json,
        }
    }
}

/// How specification files are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadOptions<'a> {
    /// The purpose of the volumes.
    pub purpose: Purpose,
    /// How files that declare no volume are handled.
    pub empty_files: EmptyFiles,
    /// The volumes that may have the data of another one, as `--share` names them; `None` for a command that
    /// registers nothing.
    pub share: Option<&'a [String]>,
    /// The rules of `--deny`; those about the files are checked here.
    pub deny: &'a [DenyRule],
    /// The policies that count with `--deny`; `None` for a command that obeys none.
    pub policies: Option<&'a Policies>,
    /// True if the files are refused for literal secrets. Commands with a plan refuse the change instead, which names the
    /// volume.
    pub refuses_files: bool,
    /// What files say of plugins, and whether a server is asked as well; `None` without `--plugins`.
    pub plugins: Option<(&'a PluginSnapshots, SnapshotUse)>,
}

impl LoadOptions<'_> {
    /// Returns what forbids the files that a rule is about: `--deny`, which refuses `what`, and policies.
    fn forbidding(&self, rule: DenyRule, what: &str) -> Vec<String> {
        let by_option = || format!("`--deny {}` refuses {what}", rule.as_str());
        let typed = self.deny.contains(&rule).then(by_option);
        let policies = self.policies.into_iter().flat_map(|policies| policies.denying(rule));
        typed.into_iter().chain(policies).collect()
    }
}

/// How files that declare no volume are handled. In each case the files must exist and name a set:
/// missing files never empty a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyFiles {
    /// An error.
    Rejected,
    /// A warning.
    Warned,
    /// The set has no volumes, as its files say.
    Accepted,
    /// The set has no volumes, as its files say, and what it owns is removed.
    Pruned,
}

impl EmptyFiles {
    /// For commands that can remove what no file declares.
    pub(super) fn with_prune(prune: bool) -> Self {
        if prune { Self::Pruned } else { Self::Rejected }
    }
}

/// Reads and validates the files that the command line names, and prints their problems.
///
/// # Errors
/// If a file has an error.
pub(super) fn load_specifications(
    context: &CommandContext,
    arguments: &FileArgs,
    options: LoadOptions<'_>,
    set: &SetArgs,
) -> Result<Specifications, CliError> {
    let namespace = context.namespace()?;
    load_specifications_in(context, arguments, options, set, namespace.as_ref())
}

/// Reads and validates files, and prints their problems. `namespace` is the one of volumes that declare
/// none.
///
/// # Errors
/// If a file has an error.
pub(super) fn load_specifications_in(
    context: &CommandContext,
    arguments: &FileArgs,
    options: LoadOptions<'_>,
    set: &SetArgs,
    namespace: Option<&Namespace>,
) -> Result<Specifications, CliError> {
    let (specifications, diagnostics) =
        read_specifications(context, arguments, options, set, namespace)?;
    context.print_diagnostics(&diagnostics, &specifications.sources);
    if diagnostics.has_errors() {
        return Err(CliError::already_reported(Exit::Error));
    }
    Ok(specifications)
}

/// Reads and validates files as one run, and returns their problems. `namespace` is the one of volumes that declare
/// none.
///
/// # Errors
/// If the namespace or the set of the command line is invalid.
pub(super) fn read_specifications(
    context: &CommandContext,
    arguments: &FileArgs,
    options: LoadOptions<'_>,
    set: &SetArgs,
    namespace: Option<&Namespace>,
) -> Result<(Specifications, Diagnostics), CliError> {
    evaluate_texts(context, read_texts(context, arguments, namespace)?, options, set)
}

/// The texts of a command, before they are evaluated.
pub(super) struct ReadTexts {
    /// The texts of volumes.
    pub texts: Vec<(SourceId, Syntax)>,
    /// All texts.
    pub sources: SourceMap,
    /// Files of host volumes that the command line names.
    host_volumes: Vec<(SourceId, Syntax)>,
    given: GivenVariables,
    defaults: Defaults,
    /// True if the command line names all namespaces, so that each volume has to declare its own.
    all_namespaces: bool,
    /// The problems of files that could not be read, or are left alone.
    diagnostics: Diagnostics,
    is_of_saved_plan: bool,
    is_one_of_several: bool,
}

impl ReadTexts {
    /// Returns what one run has of the texts. `declared` are the variables of all texts.
    pub(super) fn for_run(&self, run: &SetRun, declared: &Arc<BTreeSet<String>>) -> Self {
        let texts = run.files.iter().filter_map(|index| self.texts.get(*index)).copied().collect();
        let declared_elsewhere = Arc::clone(declared);
        Self {
            texts,
            sources: self.sources.clone(),
            is_one_of_several: run.directory.is_some(),
            host_volumes: self.host_volumes.clone(),
            given: GivenVariables { declared_elsewhere, ..self.given.clone() },
            defaults: self.defaults.clone(),
            all_namespaces: self.all_namespaces,
            diagnostics: self.diagnostics.clone(),
            is_of_saved_plan: self.is_of_saved_plan,
        }
    }
}

/// Reads the files that the command line names, with the values of variables.
///
/// # Errors
/// If the namespace of the command line is invalid.
pub(super) fn read_texts(
    context: &CommandContext,
    arguments: &FileArgs,
    namespace: Option<&Namespace>,
) -> Result<ReadTexts, CliError> {
    let all_namespaces = namespace.is_some_and(|given| given.as_str() == Namespace::ALL);
    let given_namespace = namespace.filter(|_| !all_namespaces).cloned();
    let defaults = Defaults { namespace: given_namespace.unwrap_or_default() };
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::default();
    let paths = arguments.all();
    let texts = context.stdin.with_reader(|stdin| {
        let mut request = SpecFilesRequest {
            arguments: &paths,
            base_directory: &context.directory,
            stdin,
            syntax: arguments.syntax.map(Syntax::from),
            pipe_limit: files::PIPE_LIMIT,
            read_before: &arguments.read_before,
            shows_only_tree: arguments.are_of_saved_plan,
        };
        files::read_spec_files(&mut request, &mut sources, &mut diagnostics)
    });
    let given = given_variables(context, arguments, &mut sources, &mut diagnostics);
    let named_files = files::NamedFiles::new(&context.directory, &paths);
    let (host, texts): (Vec<(SourceId, Syntax)>, Vec<_>) = texts
        .into_iter()
        .partition(|(source, syntax)| declares_host_volumes(&sources, *source, *syntax));
    let (host_volumes, skipped): (Vec<_>, Vec<_>) =
        host.into_iter().partition(|(source, _)| named_files.has(sources.name(*source)));
    for (source, _) in &skipped {
        diagnostics.push(host_volumes_left_alone(sources.name(*source)));
    }
    let is_of_saved_plan = arguments.are_of_saved_plan;
    Ok(ReadTexts {
        texts,
        sources,
        host_volumes,
        given,
        defaults,
        all_namespaces,
        diagnostics,
        is_of_saved_plan,
        is_one_of_several: false,
    })
}

/// Evaluates and validates texts as one run, and returns their problems.
///
/// # Errors
/// If the set of the command line is invalid.
pub(super) fn evaluate_texts(
    context: &CommandContext,
    read_texts: ReadTexts,
    options: LoadOptions<'_>,
    set: &SetArgs,
) -> Result<(Specifications, Diagnostics), CliError> {
    let typed = parse_set_name(set.set.as_deref())?;
    let ReadTexts {
        texts,
        mut sources,
        host_volumes,
        given,
        defaults,
        all_namespaces,
        mut diagnostics,
        is_of_saved_plan,
        is_one_of_several,
    } = read_texts;
    // What is said of the values of CSI volumes is not true of host volumes.
    let mut of_host = Diagnostics::default();
    read(&mut sources, &host_volumes, &GivenVariables::default(), &defaults, &mut of_host);
    diagnostics.extend(of_host.into_iter().filter(is_error).collect());
    let Parsed { volumes, sets, empty, variables } =
        read(&mut sources, &texts, &given, &defaults, &mut diagnostics);
    let undeclared =
        options.forbidding(DenyRule::UndeclaredVariables, "values without a declaration");
    diagnostics =
        diagnostics.map(|problem| denied(problem, Code::SpecUndeclaredVariable, &undeclared));
    let file_count = texts.len() + host_volumes.len();
    validate(&volumes, options.purpose, &mut diagnostics);
    let literal = options.forbidding(DenyRule::LiteralSecrets, "secrets that a file contains");
    if options.refuses_files {
        diagnostics = diagnostics.map(|problem| denied(problem, Code::SpecLiteralSecret, &literal));
    }
    if let Some(share) = options.share {
        second_registrations(&volumes, share, &mut diagnostics);
    }
    if let Some((snapshots, use_)) = options.plugins {
        snapshot_problems(&volumes, options.purpose, snapshots, use_, &mut diagnostics);
        let unknown = options.forbidding(DenyRule::UnknownPlugins, "plugins that no file is of");
        diagnostics = diagnostics.map(|problem| denied(problem, Code::PluginNoSnapshot, &unknown));
    }
    if all_namespaces {
        check_declared_namespaces(&volumes, &mut diagnostics);
    } else if let Some(source) = namespace_source(context, &defaults.namespace) {
        check_namespaces(&volumes, &defaults.namespace, source, &mut diagnostics);
    }
    if options.empty_files == EmptyFiles::Pruned {
        diagnostics = diagnostics.map(explain_emptying);
    }
    if is_of_saved_plan {
        diagnostics = diagnostics.map(explain_missing_value);
    }
    if volumes.is_empty() && !diagnostics.has_errors() {
        let named = (sets.first(), is_one_of_several);
        diagnostics.extend(no_volume(options.empty_files, named, &empty));
    }
    if let Some(first) = volumes.first() {
        let place = Place::of(first.span, &sources);
        context.update_report(|report| {
            report.first_place.get_or_insert(place);
        });
    }
    let set = selected_set(&sets, typed, &mut diagnostics);
    diagnostics.sort();
    let base_directory = context.directory.clone();
    let specifications =
        Specifications { set, volumes, sources, file_count, base_directory, variables };
    Ok((specifications, diagnostics))
}

/// Explains why a variable that had a value for the plan has none now.
fn explain_missing_value(problem: Diagnostic) -> Diagnostic {
    match problem.code {
        Code::SpecUnsetVariable => problem
            .note("a saved plan holds no value of a sensitive variable: give it as for the plan"),
        _ => problem,
    }
}

fn is_error(problem: &Diagnostic) -> bool {
    problem.severity == Severity::Error
}

/// The warning of a file that a directory or a pattern brought along, and that is none of this program.
fn host_volumes_left_alone(name: &str) -> Diagnostic {
    let message = format!("`{name}` declares a host volume: it is left alone");
    Diagnostic::warning(Code::SpecHostVolume, message).help(Code::SpecHostVolume.advice())
}

/// Makes an error of a warning that rules or policies forbid. A value without a declaration counts only if a file has it.
fn denied(problem: Diagnostic, code: Code, forbidding: &[String]) -> Diagnostic {
    let is_of_no_file = code == Code::SpecUndeclaredVariable && problem.labels.is_empty();
    if forbidding.is_empty() || problem.code != code || is_error(&problem) || is_of_no_file {
        return problem;
    }
    let refused = Diagnostic { severity: Severity::Error, ..problem };
    let refused = forbidding.iter().fold(refused, |refused, by| refused.note(by.as_str()));
    match refused.help.is_empty() {
        true => refused.help(code.advice()),
        false => refused,
    }
}

/// The name of the file of variables that a saved plan stands for.
const SAVED_VARIABLES: &str = "<saved plan>";

/// Reads the values of variables: from the environment, files and arguments.
fn given_variables(
    context: &CommandContext,
    arguments: &FileArgs,
    sources: &mut SourceMap,
    diagnostics: &mut Diagnostics,
) -> GivenVariables {
    let mut files = vec![];
    if arguments.variable_files.len() > files::MAX_VARIABLE_FILES {
        let message = format!(
            "cannot read {} files of variables: a command takes at most {}",
            arguments.variable_files.len(),
            files::MAX_VARIABLE_FILES
        );
        let problem = Diagnostic::error(Code::FilesTooLarge, message);
        diagnostics.push(problem.help("put the values into fewer files"));
    }
    for path in arguments.variable_files.iter().take(files::MAX_VARIABLE_FILES) {
        match files::read_variable_file(&context.directory, Path::new(path)) {
            Ok(text) => {
                let syntax = Syntax::from_path(Path::new(path)).unwrap_or(Syntax::Hcl);
                files.push((sources.add(path.as_str(), text), syntax));
            }
            Err(problems) => diagnostics.extend(problems),
        }
    }
    if let Some(saved) = &arguments.saved_variables {
        files.push((sources.add(SAVED_VARIABLES, saved.as_str()), Syntax::Json));
    }
    let given = arguments.variables.iter();
    let arguments = given.map(|given| (given.name.clone(), given.value.clone())).collect();
    let environment = context.environment.specification_variables();
    GivenVariables { environment, files, arguments, declared_elsewhere: Arc::default() }
}

/// Parses the value of `--set`.
///
/// # Errors
/// If it is not the name of a set.
pub(super) fn parse_set_name(typed: Option<&str>) -> Result<Option<SetName>, CliError> {
    let parsed = |text| {
        SetName::parse(text).map_err(|problem| {
            let message = format!("`--set {text}` is not the name of a set: {problem}");
            Diagnostic::error(Code::CliInvalidValue, message).into()
        })
    };
    typed.map(parsed).transpose()
}

/// Explains how to empty a set on purpose: missing files never do.
fn explain_emptying(problem: Diagnostic) -> Diagnostic {
    match problem.code {
        Code::FilesNoSpecs | Code::FilesNotFound | Code::SpecNoVolume => {
            problem.help("to remove all volumes from a set, give a file with `set = \"NAME\"` and no volume; missing files remove nothing")
        }
        _ => problem,
    }
}

/// Reports files that declare no volume. `named` is the set that they name, and where.
fn no_volume(
    empty_files: EmptyFiles,
    (named, is_one_of_several): (Option<&(SetName, Span)>, bool),
    empty: &[EmptyBlock],
) -> Diagnostics {
    if !empty.is_empty() && empty_files != EmptyFiles::Pruned {
        return all_blocks_are_empty(empty).into();
    }
    let Some((set, place)) = named else {
        return Diagnostic::error(Code::SpecNoVolume, "no volume is declared").into();
    };
    let message = format!("set `{set}` has no volumes: the files name it but declare none");
    let help = match is_one_of_several {
        true => {
            "to deregister all volumes of the set, run `apply --prune` with the files of this set alone; their data stays"
        }
        false => {
            "run `apply --prune` with these files to deregister all volumes of the set; their data stays"
        }
    };
    let label = "no volume is declared with it";
    match empty_files {
        EmptyFiles::Accepted | EmptyFiles::Pruned => Diagnostics::default(),
        EmptyFiles::Warned => {
            Diagnostic::warning(Code::SpecNoVolume, message).label(*place, label).help(help).into()
        }
        EmptyFiles::Rejected => Diagnostic::error(Code::SpecNoVolume, message)
            .label(*place, label)
            .help("declare a volume; run `nomad-csi volume init` for an example")
            .help(help)
            .into(),
    }
}

/// The error of a run whose blocks declare no volume: a wrong value of a variable must not empty a set.
fn all_blocks_are_empty(empty: &[EmptyBlock]) -> Diagnostic {
    let reasons: Vec<&str> = empty.iter().map(|block| block.reason.as_str()).collect();
    let message = format!("no volume is declared: {}", reasons.join(", "));
    let problem = Diagnostic::error(Code::SpecNoVolume, message);
    let problem = empty.iter().fold(problem, |problem, block| problem.label(block.place, ""));
    problem.help("use `apply --prune` to remove all volumes from the set; their data is kept")
}

/// Returns the set: from the files or from `--set`, which must not differ.
fn selected_set(
    sets: &[(SetName, Span)],
    typed: Option<SetName>,
    diagnostics: &mut Diagnostics,
) -> Option<SetName> {
    let written = single_set(sets, diagnostics).cloned();
    match (written, typed) {
        (Some((written, place)), Some(typed)) if written != typed => {
            let message = format!("the file names set `{written}`, but `--set` names `{typed}`");
            diagnostics.push(
                Diagnostic::error(Code::CliSetConflict, message)
                    .label(place, "")
                    .help("remove `--set`, or use the same name"),
            );
            None
        }
        (Some((written, _)), _) => Some(written),
        (None, typed) => typed,
    }
}

/// Checks that every volume declares its namespace: all namespaces (`*`) are none for a volume.
fn check_declared_namespaces(volumes: &[VolumeSpec], diagnostics: &mut Diagnostics) {
    for spec in volumes.iter().filter(|spec| !spec.namespace_given) {
        let message = format!(
            "cannot use all namespaces (`*`) for volume `{}`, which declares none",
            spec.request.id
        );
        diagnostics.push(
            Diagnostic::error(Code::CliInvalidValue, message)
                .label(spec.span, "")
                .note("the namespace comes from `--namespace`, NOMAD_NAMESPACE or the context")
                .help("name one namespace, or declare `namespace` in the specification"),
        );
    }
}

/// Returns what names the namespace `used` for the whole command: the flag or the variable. The namespace of a context is
/// only a default.
fn namespace_source(context: &CommandContext, used: &Namespace) -> Option<&'static str> {
    if context.global.namespace.is_some() {
        return Some("--namespace");
    }
    let variable = context.environment.text(Variable::Namespace).ok().flatten();
    variable.filter(|name| *name == used.as_str()).map(|_| Variable::Namespace.name())
}

/// Checks that no volume declares another namespace than the flag or the variable. Nomad's CLI ignores both then.
fn check_namespaces(
    volumes: &[VolumeSpec],
    named: &Namespace,
    source: &str,
    diagnostics: &mut Diagnostics,
) {
    let (quoted, remedy) = match source.starts_with("--") {
        true => (format!("`{source}`"), format!("remove `{source}`")),
        false => (source.to_owned(), format!("unset {source}")),
    };
    for spec in volumes {
        let written = &spec.request.namespace;
        if spec.namespace_given && written != named {
            let message = format!(
                "volume `{}` declares namespace `{written}`, but {quoted} names `{named}`",
                spec.request.id
            );
            diagnostics.push(
                Diagnostic::error(Code::CliNamespaceConflict, message)
                    .label(spec.field_span("namespace"), "")
                    .help(format!("{remedy}, or use the same namespace")),
            );
        }
    }
}
