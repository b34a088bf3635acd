//! Reads the texts of a workspace as `validate` does: divided into runs, with the problems of each file.
//!
//! A variable without a value is none, because its value is often given elsewhere; what depends on it is not evaluated. If a text
//! does not parse, names that it may declare are not missing elsewhere. Files of other programs take no part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::workspace::{Workspace, WorkspaceText};
use nomad_csi_client::files::{FileOfCommand, divide_into_runs};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap};
use nomad_csi_spec::job::{JobFile, check, parse_job};
use nomad_csi_spec::{
    Defaults, GivenVariables, NameKind, Purpose, Survey, Syntax, TextKind, VariableValue, read,
    single_set, validate,
};

/// A text that was read.
pub(crate) struct AnalysedText {
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    pub(crate) syntax: Syntax,
    pub(crate) source: SourceId,
    pub(crate) survey: Rc<Survey>,
    /// True if it is read together with others.
    is_shared: bool,
}

/// What is known of the texts of a workspace.
#[derive(Default)]
pub struct Analysis {
    pub(crate) sources: SourceMap,
    pub(crate) texts: Vec<AnalysedText>,
    /// The problems, each once.
    pub(crate) problems: Vec<Diagnostic>,
    pub(crate) variables: Vec<VariableValue>,
}

/// Reads the texts of a workspace.
pub fn analyse(workspace: &Workspace) -> Analysis {
    let mut analysis = Analysis::default();
    let files = variable_files(workspace, &mut analysis.sources);
    for WorkspaceText { path, text, syntax, is_withheld } in workspace.texts() {
        if workspace.variable_files.contains(&path) {
            continue;
        }
        let source = analysis.sources.add(workspace.shown(&path), Arc::clone(&text));
        if is_withheld {
            analysis.sources.withhold(source);
        }
        let survey = match is_withheld {
            true => Rc::default(),
            false => workspace.survey(&path, &text, syntax),
        };
        let is_shared = workspace.is_shared(&path);
        analysis.texts.push(AnalysedText { path, text, syntax, source, survey, is_shared });
    }
    let runs = analysis.runs(workspace);
    let declared: BTreeSet<String> = analysis.declared(NameKind::Variable);
    let given = GivenVariables {
        environment: workspace.environment.clone(),
        files,
        arguments: vec![],
        declared_elsewhere: Arc::new(declared),
    };
    for run in &runs {
        analysis.read_run(run, &given);
    }
    analysis.read_jobs();
    analysis
}

fn variable_files(workspace: &Workspace, sources: &mut SourceMap) -> Vec<(SourceId, Syntax)> {
    let text_of = |path: &PathBuf| {
        let (text, syntax) = workspace.text(path)?;
        Some((sources.add(workspace.shown(path), text), syntax))
    };
    workspace.variable_files.iter().filter_map(text_of).collect()
}

/// Names that may be declared in a text that does not parse.
const MAY_BE_DECLARED: [Code; 3] =
    [Code::SpecUnknownName, Code::SpecUnknownClass, Code::SpecUndeclaredVariable];

impl Analysis {
    /// Returns the indexes of the texts of each run.
    fn runs(&self, workspace: &Workspace) -> Vec<Vec<usize>> {
        let is_spec = |text: &AnalysedText| text.survey.kind == TextKind::Specification;
        let all = || self.texts.iter().enumerate().filter(|(_, text)| is_spec(text));
        let shared: Vec<usize> =
            all().filter(|(_, text)| text.is_shared).map(|(index, _)| index).collect();
        let root = workspace.root.as_deref().unwrap_or(Path::new("/"));
        let names: Vec<String> = shared
            .iter()
            .filter_map(|index| Some(workspace.shown(&self.texts.get(*index)?.path)))
            .collect();
        let sets = shared.iter().filter_map(|index| self.texts.get(*index));
        let files: Vec<FileOfCommand<'_>> = names
            .iter()
            .zip(sets)
            .map(|(name, text)| FileOfCommand { name, set: text.survey.set.clone() })
            .collect();
        let mut runs: Vec<Vec<usize>> = vec![];
        if !files.is_empty() {
            for run in divide_into_runs(root, &files) {
                let index = |file: &usize| shared.get(*file).copied();
                runs.push(run.files.iter().filter_map(index).collect());
            }
        }
        let alone = all().filter(|(_, text)| !text.is_shared).map(|(index, _)| vec![index]);
        runs.extend(alone);
        runs
    }

    fn read_run(&mut self, run: &[usize], given: &GivenVariables) {
        let of_run: Vec<&AnalysedText> =
            run.iter().filter_map(|index| self.texts.get(*index)).collect();
        let texts: Vec<(SourceId, Syntax)> =
            of_run.iter().map(|text| (text.source, text.syntax)).collect();
        let is_complete = of_run.iter().all(|text| text.survey.is_read);
        let mut found = Diagnostics::default();
        let defaults = Defaults::default();
        let parsed = read(&mut self.sources, &texts, given, &defaults, &mut found);
        validate(&parsed.volumes, Purpose::ByExternalId, &mut found);
        single_set(&parsed.sets, &mut found);
        found.sort();
        for problem in found {
            let is_of_others = !is_complete && MAY_BE_DECLARED.contains(&problem.code);
            let is_unset = problem.code == Code::SpecUnsetVariable;
            if !is_unset && !is_of_others && !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        for variable in parsed.variables {
            if !self.variables.iter().any(|known| known.name == variable.name) {
                self.variables.push(variable);
            }
        }
    }

    fn read_jobs(&mut self) {
        let is_job = |text: &&AnalysedText| text.survey.kind == TextKind::Job;
        for text in self.texts.iter().filter(is_job) {
            let mut found = Diagnostics::default();
            let defaults = Defaults::default();
            let parsed =
                parse_job(&mut self.sources, text.source, text.syntax, &defaults, &mut found);
            if let Some(JobFile::Specification(job)) = parsed {
                check(&job, &mut found);
            }
            found.sort();
            self.problems.extend(found);
        }
    }

    /// Returns the text of a path.
    pub(crate) fn text(&self, path: &Path) -> Option<&AnalysedText> {
        self.texts.iter().find(|text| text.path == path)
    }

    /// Returns the text of a source.
    pub(crate) fn text_of(&self, source: SourceId) -> Option<&AnalysedText> {
        self.texts.iter().find(|text| text.source == source)
    }

    /// Returns the declared names of a kind.
    pub(crate) fn declared(&self, kind: NameKind) -> BTreeSet<String> {
        let all = self.texts.iter().flat_map(|text| &text.survey.declared);
        all.filter(|one| one.kind == kind).map(|one| one.name.clone()).collect()
    }

    /// Returns the problems of each text, in the order of the texts. A problem without a place is of no text.
    pub(crate) fn problems_of_texts(&self) -> BTreeMap<SourceId, Vec<&Diagnostic>> {
        let mut found: BTreeMap<SourceId, Vec<&Diagnostic>> = BTreeMap::new();
        for problem in &self.problems {
            if let Some(first) = problem.labels.first() {
                found.entry(first.span.source).or_default().push(problem);
            }
        }
        found
    }
}
