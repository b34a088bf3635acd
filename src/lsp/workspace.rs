//! The texts of a run of the server: those of the editor over those of the disk, and the values of variables.
//!
//! A text that the editor has open counts, whatever the disk has. Surveys are kept as long as their texts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::edits::{TextChange, changed};
use super::positions::Encoding;
use nomad_csi_client::files::is_specification;
use nomad_csi_model::Secret;
use nomad_csi_spec::{Survey, Syntax, survey};

/// A text of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskText {
    /// The text.
    pub text: Arc<str>,
    /// Its syntax.
    pub syntax: Syntax,
    /// True if a link leads to it, and nothing of it may be shown.
    pub is_withheld: bool,
}

/// A text that the editor has open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenText {
    text: Arc<str>,
    syntax: Syntax,
    version: Option<i64>,
}

/// A text that takes part.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceText {
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    pub(crate) syntax: Syntax,
    pub(crate) is_withheld: bool,
}

/// A survey and its text.
type KnownSurvey = (Arc<str>, Rc<Survey>);

/// The texts and the values of a run of the server.
#[derive(Default)]
pub struct Workspace {
    /// The folder that the editor has open.
    pub(crate) root: Option<PathBuf>,
    pub(crate) encoding: Encoding,
    /// The files of variables, in their order.
    pub(crate) variable_files: Vec<PathBuf>,
    pub(crate) environment: BTreeMap<String, Secret>,
    /// True if the editor takes completions with places for the cursor.
    pub(crate) has_snippets: bool,
    disk: BTreeMap<PathBuf, DiskText>,
    open: BTreeMap<PathBuf, OpenText>,
    surveys: RefCell<BTreeMap<PathBuf, KnownSurvey>>,
}

impl Workspace {
    /// Creates a workspace of a folder; without one, only what is open takes part.
    pub fn new(root: Option<PathBuf>, encoding: Encoding) -> Self {
        Self { root, encoding, ..Self::default() }
    }

    /// Sets the files of variables, which are among the texts of the disk or open.
    pub fn set_variables(&mut self, files: Vec<PathBuf>, environment: BTreeMap<String, Secret>) {
        self.variable_files = files;
        self.environment = environment;
    }

    /// Replaces what the disk has.
    pub fn set_disk(&mut self, disk: BTreeMap<PathBuf, DiskText>) {
        self.disk = disk;
        self.forget_surveys();
    }

    /// Opens a text. `language` is the editor's word for its syntax, which counts if the path says nothing.
    pub fn open(&mut self, path: PathBuf, text: &str, language: &str, version: Option<i64>) {
        let syntax = Syntax::from_path(&path).or_else(|| Syntax::from_extension(language));
        let open = OpenText { text: text.into(), syntax: syntax.unwrap_or(Syntax::Hcl), version };
        self.open.insert(path, open);
    }

    /// Changes an open text.
    pub fn change(&mut self, path: &Path, changes: &[TextChange], version: Option<i64>) {
        let encoding = self.encoding;
        if let Some(open) = self.open.get_mut(path) {
            for change in changes {
                open.text = changed(&open.text, change, encoding).into();
            }
            open.version = version;
        }
    }

    /// Closes a text: what the disk has counts again.
    pub fn close(&mut self, path: &Path) {
        self.open.remove(path);
        self.forget_surveys();
    }

    /// Returns the text of a path.
    pub(crate) fn text(&self, path: &Path) -> Option<(Arc<str>, Syntax)> {
        let open = self.open.get(path).map(|open| (Arc::clone(&open.text), open.syntax));
        open.or_else(|| self.disk.get(path).map(|disk| (Arc::clone(&disk.text), disk.syntax)))
    }

    /// Returns the version of an open text.
    pub(crate) fn version(&self, path: &Path) -> Option<i64> {
        self.open.get(path)?.version
    }

    pub(crate) fn is_open(&self, path: &Path) -> bool {
        self.open.contains_key(path)
    }

    /// Returns the texts, in the order of their paths.
    pub(crate) fn texts(&self) -> Vec<WorkspaceText> {
        let paths: BTreeSet<&PathBuf> = self.disk.keys().chain(self.open.keys()).collect();
        let text_of = |path: &&PathBuf| {
            let (text, syntax) = self.text(path)?;
            let is_open = self.open.contains_key(*path);
            let is_withheld = self.disk.get(*path).is_some_and(|disk| disk.is_withheld) && !is_open;
            Some(WorkspaceText { path: (*path).clone(), text, syntax, is_withheld })
        };
        paths.iter().filter_map(text_of).collect()
    }

    /// Returns whether a text is read together with the others: what is open elsewhere stands alone.
    pub(crate) fn is_shared(&self, path: &Path) -> bool {
        let is_below = self.root.as_ref().is_some_and(|root| path.starts_with(root));
        self.disk.contains_key(path) || is_below && is_specification(path)
    }

    /// Returns the survey of a text.
    pub(crate) fn survey(&self, path: &Path, text: &Arc<str>, syntax: Syntax) -> Rc<Survey> {
        let known = self.surveys.borrow().get(path).cloned();
        if let Some((known, found)) = known
            && Arc::ptr_eq(&known, text)
        {
            return found;
        }
        let found = Rc::new(survey(text, syntax));
        let entry = (Arc::clone(text), Rc::clone(&found));
        self.surveys.borrow_mut().insert(path.to_owned(), entry);
        found
    }

    /// Forgets the surveys of texts that are gone.
    fn forget_surveys(&mut self) {
        let (disk, open) = (&self.disk, &self.open);
        let is_there = |path: &PathBuf| disk.contains_key(path) || open.contains_key(path);
        self.surveys.borrow_mut().retain(|path, _| is_there(path));
    }

    /// Returns the name of a path in messages: from the folder, if it is below.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let below = self.root.as_ref().and_then(|root| path.strip_prefix(root).ok());
        below.unwrap_or(path).to_string_lossy().replace('\\', "/")
    }
}
