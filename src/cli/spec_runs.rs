//! The runs of a command whose files name several sets: one for each directory with a set.
//!
//! All runs are read before one of them is used. A set belongs to one run, and so does a volume: what two runs declare is an
//! error. An option that names a volume applies to the run that declares it. Each problem is printed once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::args::{ChangeArgs, FileArgs, SetArgs};
use super::command_context::CommandContext;
use super::error::CliError;
use super::exit::Exit;
use super::specs::{LoadOptions, evaluate_texts, read_texts};
use nomad_csi_client::files::{FileOfCommand, are_in_one_place, divide_into_runs};
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId};
use nomad_csi_model::{Namespace, NamespacedId, SetName, one_line};
use nomad_csi_spec::{Outline, Syntax, VolumeSpec, outline, second_registrations, unique_names};

/// The specifications of one run.
pub(super) struct SpecRun {
    /// The directory that names the set; `None` if the command has one run.
    pub directory: Option<String>,
    /// What the files declare.
    pub specifications: Specifications,
    /// The problems of the files.
    pub diagnostics: Diagnostics,
}

impl SpecRun {
    /// Returns the only run of a command. Its problems are printed already.
    pub(super) fn only(specifications: Specifications) -> Self {
        Self { directory: None, specifications, diagnostics: Diagnostics::default() }
    }

    /// Returns the line that stands over what is printed of the run; `None` if the command has one run.
    pub(super) fn heading(&self) -> Option<String> {
        let directory = one_line(self.directory.as_ref()?);
        Some(match &self.specifications.set {
            Some(set) => format!("set {set} ({directory})"),
            None => directory,
        })
    }

    fn declares(&self, named: &str) -> bool {
        self.declared(named).next().is_some()
    }

    /// Returns the volumes that `ID` or `NAMESPACE/ID` names.
    fn declared<'s>(&'s self, named: &'s str) -> impl Iterator<Item = &'s VolumeSpec> {
        let is_named = move |spec: &&VolumeSpec| match named.split_once('/') {
            Some((namespace, id)) => {
                spec.request.namespace.as_str() == namespace && spec.request.id.as_str() == id
            }
            None => spec.request.id.as_str() == named,
        };
        self.specifications.volumes.iter().filter(is_named)
    }
}

/// Reads and validates the files that the command line names, divided into runs.
///
/// # Errors
/// If the namespace or the set of the command line is invalid, or a set is named for several runs.
pub(super) fn read_runs(
    context: &CommandContext,
    arguments: &FileArgs,
    options: LoadOptions<'_>,
    set: &SetArgs,
    namespace: Option<&Namespace>,
) -> Result<Vec<SpecRun>, CliError> {
    let read = read_texts(context, arguments, namespace)?;
    let names = || read.texts.iter().map(|(source, _)| read.sources.name(*source));
    // Files of one place are one run, and are not read twice to learn that.
    let is_one = are_in_one_place(&context.directory, names());
    let outline_of = |(source, syntax): &(SourceId, Syntax)| match is_one {
        true => Outline::default(),
        false => outline(&read.sources, *source, *syntax),
    };
    let outlines: Vec<Outline> = read.texts.iter().map(outline_of).collect();
    let files: Vec<FileOfCommand<'_>> = names()
        .zip(&outlines)
        .map(|(name, outline)| FileOfCommand { name, set: outline.set.clone() })
        .collect();
    let runs = divide_into_runs(&context.directory, &files);
    if let Some(typed) = &set.set {
        let directories = runs.iter().map(|run| run.directory.clone());
        refuse_for_several(&format!("--set {typed}"), directories)?;
    }
    let declared: BTreeSet<String> =
        outlines.iter().flat_map(|outline| outline.variables.iter().cloned()).collect();
    let declared = Arc::new(declared);
    let mut found = vec![];
    for run in runs {
        let of_run = read.for_run(&run, &declared);
        let (specifications, diagnostics) = evaluate_texts(context, of_run, options, set)?;
        found.push(SpecRun { directory: run.directory, specifications, diagnostics });
    }
    refuse_equal_sets(&mut found);
    refuse_equal_volumes(&mut found);
    refuse_equal_data(&mut found, options);
    Ok(found)
}

/// Reads and validates files as [`read_runs`] does, and prints their problems.
///
/// # Errors
/// Those of [`read_runs`], and if a file of any run has an error.
pub(super) fn load_runs(
    context: &CommandContext,
    arguments: &FileArgs,
    options: LoadOptions<'_>,
    set: &SetArgs,
    namespace: Option<&Namespace>,
) -> Result<Vec<SpecRun>, CliError> {
    let runs = read_runs(context, arguments, options, set, namespace)?;
    let mut is_first = true;
    for (run, problems) in runs.iter().zip(problems_once(&runs)) {
        if !problems.is_empty() && !std::mem::replace(&mut is_first, false) {
            context.printer.print_status("");
        }
        context.print_diagnostics(&problems, &run.specifications.sources);
    }
    if runs.iter().any(|run| run.diagnostics.has_errors()) {
        return Err(CliError::already_reported(Exit::Error));
    }
    Ok(runs)
}

/// Returns the problems of each run without those of earlier runs: a file of all runs has its problems in each.
pub(super) fn problems_once(runs: &[SpecRun]) -> Vec<Diagnostics> {
    let mut before: BTreeMap<&str, Vec<&Diagnostic>> = BTreeMap::new();
    let mut shown = vec![];
    for run in runs {
        // Those that are only counted stay counted.
        let is_new = |problem: &Diagnostic| {
            let earlier = before.get(problem.message.as_str());
            earlier.is_none_or(|earlier| !earlier.contains(&problem))
        };
        shown.push(run.diagnostics.clone().retain(is_new));
        for problem in run.diagnostics.iter() {
            before.entry(&problem.message).or_default().push(problem);
        }
    }
    shown
}

/// Returns the changes that the command line names, for each run.
///
/// # Errors
/// If an option names a volume that no run declares, or that several runs do.
pub(super) fn changes_of_runs(
    arguments: &ChangeArgs,
    runs: &[SpecRun],
) -> Result<Vec<ChangeArgs>, CliError> {
    let [_, _, ..] = runs else {
        return Ok(vec![arguments.clone()]);
    };
    let options = [
        ("--replace", &arguments.replace, Form::Volume),
        ("--delete-data", &arguments.delete_data, Form::Volume),
        ("--share", &arguments.share, Form::Volume),
        ("--accept-loss", &arguments.accept_loss, Form::WordAndVolume),
    ];
    for (option, texts, form) in options {
        for text in texts {
            refuse_if_not_of_one(option, text, form, runs)?;
        }
    }
    // What is approved may be about a volume that no file declares any more.
    for text in &arguments.approve {
        refuse_if_of_several("--approve", text, Form::WordAndVolume, runs)?;
    }
    let declared = declared_volumes(runs);
    let of_run = |run: &SpecRun| {
        let kept = |texts: &[String], form: Form| -> Vec<String> {
            texts.iter().filter(|text| run.declares(form.volume_of(text))).cloned().collect()
        };
        let replace = kept(&arguments.replace, Form::Volume);
        ChangeArgs {
            snapshot_first: arguments.snapshot_first && !replace.is_empty(),
            replace,
            delete_data: kept(&arguments.delete_data, Form::Volume),
            share: kept(&arguments.share, Form::Volume),
            accept_loss: kept(&arguments.accept_loss, Form::WordAndVolume),
            declared_in_runs: Some(Arc::clone(&declared)),
            ..arguments.clone()
        }
    };
    Ok(runs.iter().map(of_run).collect())
}

/// Returns the volumes that the runs declare, each with its directory. A run removes no volume that is in its own files.
fn declared_volumes(runs: &[SpecRun]) -> Arc<BTreeMap<NamespacedId, String>> {
    let of_run = |run: &SpecRun| {
        let directory = run.directory.clone().unwrap_or_default();
        let keys = run.specifications.volumes.iter().map(VolumeSpec::key);
        keys.map(|key| (key, directory.clone())).collect::<Vec<_>>()
    };
    Arc::new(runs.iter().flat_map(of_run).collect())
}

/// The form of the value of an option that names a volume.
#[derive(Clone, Copy)]
enum Form {
    /// `ID` or `NAMESPACE/ID`.
    Volume,
    /// The same after `WORD:`.
    WordAndVolume,
}

impl Form {
    fn volume_of(self, text: &str) -> &str {
        match self {
            Self::Volume => text,
            Self::WordAndVolume => text.split_once(':').map_or("", |(_, named)| named),
        }
    }
}

fn refuse_if_not_of_one(
    option: &str,
    text: &str,
    form: Form,
    runs: &[SpecRun],
) -> Result<(), CliError> {
    refuse_if_of_several(option, text, form, runs)?;
    let named = form.volume_of(text);
    if runs.iter().any(|run| run.declares(named)) {
        return Ok(());
    }
    let why = "no file declares such a volume, and the files name several sets";
    let message = format!("cannot use `{option} {}`: {why}", one_line(text));
    Err(Diagnostic::error(Code::CliInvalidValue, message).help(ONE_SET).into())
}

fn refuse_if_of_several(
    option: &str,
    text: &str,
    form: Form,
    runs: &[SpecRun],
) -> Result<(), CliError> {
    let named = form.volume_of(text);
    let mut declaring = runs.iter().filter(|run| run.declares(named));
    let (Some(first), Some(_)) = (declaring.next(), declaring.next()) else {
        return Ok(());
    };
    let namespace = first.declared(named).next().map(|spec| &spec.request.namespace);
    let namespace = namespace.map(ToString::to_string).unwrap_or_default();
    let why = "the files of several sets declare it";
    let message = format!("cannot use `{option} {}`: {why}", one_line(text));
    let problem = Diagnostic::error(Code::CliAmbiguousId, message);
    Err(problem.help(format!("add the namespace: `{namespace}/{}`", one_line(named))).into())
}

/// The advice for what is for one set.
const ONE_SET: &str =
    "name the directory of one set, and the directories without a set that it needs";

/// Refuses an option that is for one set, as the command line has it.
///
/// # Errors
/// If there are several runs.
pub(super) fn refuse_for_several(
    option: &str,
    runs: impl Iterator<Item = Option<String>>,
) -> Result<(), CliError> {
    let directories: Vec<String> = runs.flatten().map(|one| one_line(&one)).collect();
    if directories.is_empty() {
        return Ok(());
    }
    let message =
        format!("cannot use `{}`: the files name {} sets", one_line(option), directories.len());
    Err(Diagnostic::error(Code::CliInvalidValue, message)
        .note(format!("directories with a set: {}", some_of(&directories)))
        .help(format!("without the option, every set has its run; else {ONE_SET}"))
        .into())
}

/// Lists the first few names.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let listed = names.iter().take(SHOWN).map(|name| format!("`{name}`"));
    let listed = listed.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Refuses a set that two runs name: each would remove the volumes of the other with `--prune`.
fn refuse_equal_sets(runs: &mut [SpecRun]) {
    let mut first: BTreeMap<SetName, String> = BTreeMap::new();
    for run in runs {
        let (Some(set), Some(directory)) = (&run.specifications.set, &run.directory) else {
            continue;
        };
        let Some(earlier) = first.get(set) else {
            first.insert(set.clone(), directory.clone());
            continue;
        };
        let message = format!(
            "directories `{}` and `{}` are two runs of this command, and both name set `{set}`",
            one_line(earlier),
            one_line(directory)
        );
        run.diagnostics
            .push(Diagnostic::error(Code::SpecSetTwice, message).help(Code::SpecSetTwice.advice()));
    }
}

/// Refuses what two volumes of different runs may not share, as within a run: their data, and their name at a plugin.
fn refuse_equal_data(runs: &mut [SpecRun], options: LoadOptions<'_>) {
    if runs.len() < 2 {
        return;
    }
    let all = runs.iter().flat_map(|run| run.specifications.volumes.iter().cloned());
    let all: Vec<VolumeSpec> = all.collect();
    let mut problems = Diagnostics::default();
    unique_names(&all, options.purpose, &mut problems);
    if let Some(share) = options.share {
        second_registrations(&all, share, &mut problems);
    }
    let declares_at = |run: &SpecRun, source: SourceId| {
        run.specifications.volumes.iter().any(|spec| spec.span.source == source)
    };
    for mut problem in problems {
        let is_known = runs.iter().any(|run| {
            let mut found = run.diagnostics.iter();
            found.any(|one| one.code == problem.code && one.message == problem.message)
        });
        if is_known {
            continue;
        }
        // The place may also be in a class, whose file belongs to every run.
        let place = problem.labels.first().map(|label| label.span.source);
        let own = place.and_then(|place| runs.iter().position(|run| declares_at(run, place)));
        let own = own.unwrap_or(runs.len() - 1);
        // Of the texts of other runs, nothing is shown: they are not masked here.
        let is_of_other = |source: SourceId| {
            let mut others = runs.iter().enumerate().filter(|(index, _)| *index != own);
            others.any(|(_, run)| declares_at(run, source))
        };
        problem.labels.retain(|label| !is_of_other(label.span.source));
        runs[own]
            .diagnostics
            .push(problem.note("the other volume is in another set of this command"));
    }
}

/// Refuses a volume that two runs declare.
fn refuse_equal_volumes(runs: &mut [SpecRun]) {
    if runs.len() < 2 {
        return;
    }
    let mut first: BTreeMap<NamespacedId, usize> = BTreeMap::new();
    let headings: Vec<String> = runs.iter().map(|run| run.heading().unwrap_or_default()).collect();
    for (index, run) in runs.iter_mut().enumerate() {
        for spec in &run.specifications.volumes {
            let key = spec.key();
            let earlier = *first.entry(key.clone()).or_insert(index);
            if earlier == index {
                continue;
            }
            let message = format!("volume {} is declared in two sets", key.quoted());
            run.diagnostics.push(
                Diagnostic::error(Code::SpecDuplicateVolume, message)
                    .label(spec.field_span("id"), "")
                    .note(format!("{}; {}", headings[earlier], headings[index]))
                    .note("a file of a directory that names no set belongs to every set")
                    .help("move it into the directory of its set, or give it another ID in each"),
            );
        }
        run.diagnostics.sort();
    }
}

#[cfg(test)]
mod tests {
    use nomad_csi_model::diagnostic::{Severity, SourceMap};
    use nomad_csi_spec::{Defaults, Syntax, parse};

    use super::*;

    fn run(directory: &str, volumes: &[(&str, &str)]) -> SpecRun {
        let text: String = volumes
            .iter()
            .map(|(namespace, id)| {
                format!("volume \"{id}\" {{\n  type = \"csi\"\n  namespace = \"{namespace}\"\n}}\n")
            })
            .collect();
        let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
        let source = sources.add("volumes.hcl", text);
        let defaults = Defaults::default();
        let volumes = parse(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
        let specifications = Specifications {
            volumes,
            sources,
            file_count: 1,
            set: SetName::parse(directory).ok(),
            base_directory: "/".into(),
            variables: vec![],
        };
        SpecRun { directory: Some(directory.to_owned()), specifications, diagnostics }
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    fn refused(changes: &ChangeArgs, runs: &[SpecRun]) -> Vec<String> {
        let refused = changes_of_runs(changes, runs).err();
        let problems = refused.into_iter().flat_map(|error| error.diagnostics);
        problems.flat_map(|one| std::iter::once(one.message).chain(one.help)).collect()
    }

    #[test]
    fn an_option_that_names_a_volume_is_for_the_run_that_declares_it() {
        let runs = [run("a", &[("default", "x"), ("prod", "y")]), run("b", &[("default", "z")])];
        let changes = ChangeArgs {
            prune: true,
            replace: texts(&["x"]),
            snapshot_first: true,
            share: texts(&["default/z"]),
            accept_loss: texts(&["secrets:z", "mount_flags:prod/y"]),
            approve: texts(&["destroys-data:x", "loses-access:z"]),
            ..ChangeArgs::default()
        };
        let of_runs = changes_of_runs(&changes, &runs).unwrap();
        let [first, second] = of_runs.as_slice() else {
            panic!("{of_runs:?}");
        };
        assert_eq!((&first.replace, first.snapshot_first), (&texts(&["x"]), true));
        assert_eq!((&second.replace, second.snapshot_first), (&vec![], false));
        assert_eq!((&first.share, &second.share), (&vec![], &texts(&["default/z"])));
        assert_eq!(first.accept_loss, texts(&["mount_flags:prod/y"]));
        assert_eq!(second.accept_loss, texts(&["secrets:z"]));
        assert!(first.prune && second.prune);
        for run in [first, second] {
            assert_eq!(run.approve, changes.approve, "a volume may be in no file any more");
            let z = NamespacedId::new("default".into(), "z".into());
            let declared = run.declared_in_runs.as_ref().unwrap();
            assert_eq!(declared.get(&z).map(String::as_str), Some("b"));
        }
    }

    #[test]
    fn an_option_that_is_for_no_run_or_for_several_is_refused() {
        let runs = [run("a", &[("default", "x")]), run("b", &[("prod", "x"), ("prod", "y")])];
        let none = "no file declares such a volume, and the files name several sets";
        let help = ONE_SET;
        let approve = |text: &str| ChangeArgs { approve: texts(&[text]), ..ChangeArgs::default() };
        for (changes, option) in [
            (
                ChangeArgs { delete_data: texts(&["old"]), ..ChangeArgs::default() },
                "--delete-data old",
            ),
            (
                ChangeArgs { replace: texts(&["default/y"]), ..ChangeArgs::default() },
                "--replace default/y",
            ),
        ] {
            assert_eq!(
                refused(&changes, &runs),
                [format!("cannot use `{option}`: {none}"), help.to_owned()]
            );
        }
        assert_eq!(
            refused(&approve("destroys-data:x"), &runs),
            [
                "cannot use `--approve destroys-data:x`: the files of several sets declare it",
                "add the namespace: `default/x`",
            ]
        );
        for text in ["destroys-data:prod/x", "needs-downtime:gone", "cuts-off:5b0c"] {
            assert_eq!(refused(&approve(text), &runs), Vec::<String>::new());
        }
    }

    #[test]
    fn of_one_run_every_option_is_kept() {
        let runs = [SpecRun { directory: None, ..run("a", &[]) }];
        let changes = ChangeArgs {
            delete_data: texts(&["old"]),
            approve: texts(&["cuts-off:5b0c"]),
            ..ChangeArgs::default()
        };
        let of_runs = changes_of_runs(&changes, &runs).unwrap();
        assert_eq!(of_runs.len(), 1);
        assert_eq!(
            (&of_runs[0].delete_data, &of_runs[0].approve),
            (&changes.delete_data, &changes.approve)
        );
    }

    #[test]
    fn a_problem_of_every_run_is_shown_once() {
        let of_all = Diagnostic::warning(Code::SpecLiteralSecret, "shared");
        let own = Diagnostic::error(Code::SpecNoVolume, "own");
        let mut runs = [run("a", &[]), run("b", &[])];
        runs[0].diagnostics = of_all.clone().into();
        runs[1].diagnostics = [of_all.clone(), own.clone()].into_iter().collect();
        let shown = problems_once(&runs);
        let shown: Vec<Vec<_>> = shown.iter().map(|one| one.iter().cloned().collect()).collect();
        assert_eq!(shown, [vec![of_all], vec![own]]);
    }

    #[test]
    fn problems_that_are_only_counted_stay_counted() {
        let mut runs = [run("a", &[])];
        let problem = |number| Diagnostic::error(Code::SpecNoVolume, format!("{number}"));
        runs[0].diagnostics = (0..3_000).map(problem).collect();
        let shown = problems_once(&runs);
        assert_eq!(shown[0].count(Severity::Error), 3_000);
        assert!(shown[0].iter().count() < 3_000);
    }
}
