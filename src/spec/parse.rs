//! Reads the texts of a run to the volumes that they declare.
//!
//! A text with flat volumes, or with `volume` blocks of literals, is decoded and dropped at once. The documents of the
//! language are kept until all texts are read, because names are known in all files of a run.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::decode::{self, Document};
use super::defaults::Defaults;
use super::expression::names::Names;
use super::language::{
    EmptyBlock, GivenVariables, Run, VariableFile, VariableValue, declared_variables,
    is_of_language, needs_expansion, read_templates, warn_of_literals,
};
use super::other_form::{refuse_api_text, refuse_api_volumes, refuse_terraform};
use super::parse_error::ParseError;
use super::syntax::Syntax;
use super::tree::Object;
use super::unrendered::{FileKind, unrendered, unrendered_text};
use super::volume_spec::{MAX_VOLUMES, VolumeSpec, too_many_volumes};
use super::{hcl, json, mask, mask_comments, mask_text, yaml};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span};

/// The content of the texts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The volumes, in the order of the texts.
    pub volumes: Vec<VolumeSpec>,
    /// The sets that the texts name, with their positions.
    pub sets: Vec<(SetName, Span)>,
    /// The blocks that declare no volume.
    pub empty: Vec<EmptyBlock>,
    /// The variables that have values.
    pub variables: Vec<VariableValue>,
}

/// Parses the volumes of one text, as [`read`] does.
pub fn parse(
    sources: &mut SourceMap,
    source: SourceId,
    syntax: Syntax,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Vec<VolumeSpec> {
    let given = GivenVariables::default();
    read(sources, &[(source, syntax)], &given, defaults, diagnostics).volumes
}

/// Reads the texts of a run. A text that declares nothing is an error. Problems are added to `diagnostics`; after an error,
/// the result is good only for [`super::validate()`].
///
/// An HCL text that starts with `{` is read as JSON. Secrets and mount flags are hidden in `sources`, even if the text does
/// not parse, so no diagnostic shows them. Of a withheld text, no diagnostic shows anything.
pub fn read(
    sources: &mut SourceMap,
    texts: &[(SourceId, Syntax)],
    given: &GivenVariables,
    defaults: &Defaults,
    diagnostics: &mut Diagnostics,
) -> Parsed {
    let written: Vec<Arc<str>> =
        texts.iter().map(|(source, _)| Arc::clone(sources.text(*source))).collect();
    let file_texts: Vec<Arc<str>> =
        given.files.iter().map(|(source, _)| Arc::clone(sources.text(*source))).collect();
    let mut reader = RunReader {
        sources,
        defaults,
        names: Names::default(),
        kept: vec![],
        found: vec![],
        volume_count: 0,
        has_unread_text: false,
        has_unread_variables: false,
        diagnostics: Diagnostics::default(),
    };
    for ((source, syntax), text) in texts.iter().zip(&written) {
        reader.text(*source, *syntax, text);
        if reader.volume_count > MAX_VOLUMES {
            break;
        }
    }
    let files = reader.variable_files(given, &file_texts);
    let parsed = reader.finish(given, &files);
    parsed.into_result(diagnostics)
}

/// The volumes of a run, and its problems.
struct ReadRun {
    parsed: Parsed,
    problems: Diagnostics,
}

impl ReadRun {
    fn into_result(self, diagnostics: &mut Diagnostics) -> Parsed {
        diagnostics.extend(self.problems);
        self.parsed
    }
}

/// A text of the language.
struct KeptText<'a> {
    text: &'a str,
    source: SourceId,
    syntax: Syntax,
    has_secrets: bool,
    /// Its index in the run.
    index: usize,
    objects: Vec<Object<'a>>,
}

/// The volumes and sets of one text.
#[derive(Default)]
struct TextVolumes {
    volumes: Vec<VolumeSpec>,
    sets: Vec<(SetName, Span)>,
}

struct RunReader<'r, 'a> {
    sources: &'r mut SourceMap,
    defaults: &'r Defaults,
    names: Names,
    kept: Vec<KeptText<'a>>,
    found: Vec<TextVolumes>,
    volume_count: usize,
    /// True if a text could not be parsed.
    has_unread_text: bool,
    /// True if a file of variables could not be parsed, which may have any value.
    has_unread_variables: bool,
    diagnostics: Diagnostics,
}

impl<'a> RunReader<'_, 'a> {
    /// Reads one text.
    fn text(&mut self, source: SourceId, syntax: Syntax, text: &'a str) {
        let mut problems = Diagnostics::default();
        let index = self.found.len();
        let mut found = self.read_text((source, syntax, index), text, &mut problems);
        if self.sources.is_withheld(source) && !problems.is_empty() {
            let has_errors = problems.has_errors();
            self.diagnostics.push(withheld(self.sources.name(source), has_errors));
            if has_errors {
                found = TextVolumes::default();
                self.kept.retain(|kept| kept.source != source);
            }
        } else {
            self.diagnostics.extend(problems);
        }
        self.volume_count += found.volumes.len();
        if self.volume_count > MAX_VOLUMES {
            let is_reported =
                self.diagnostics.iter().any(|one| one.code == Code::SpecTooManyVolumes);
            if !is_reported {
                self.diagnostics.push(too_many_volumes());
            }
        }
        self.found.push(found);
    }

    /// Reads one text, and keeps it if it is one of the language.
    fn read_text(
        &mut self,
        (source, syntax, index): (SourceId, Syntax, usize),
        text: &'a str,
        problems: &mut Diagnostics,
    ) -> TextVolumes {
        let syntax = match syntax {
            Syntax::Hcl if Syntax::looks_like_json(text) => Syntax::Json,
            syntax => syntax,
        };
        let parsed = parse_with_expressions(text, source, syntax, &mut self.names, problems);
        let mut objects = match parsed {
            Ok(objects) => objects,
            Err(problem) => {
                let other = refuse_api_text(text, source, syntax);
                self.has_unread_text = true;
                for range in hidden_ranges(text, syntax, &problem) {
                    self.sources.hide(SourceMap::span(source, range));
                }
                // Any value of another form may be secret, so only the key that shows the form stays visible.
                for place in other.iter().flat_map(|other| &other.labels) {
                    let key = place.span.range();
                    self.sources.hide(SourceMap::span(source, 0..key.start));
                    self.sources.hide(SourceMap::span(source, key.end..text.len()));
                }
                let problem =
                    unrendered(text, syntax, FileKind::Specification, &problem).unwrap_or(problem);
                problems.push(other.unwrap_or_else(|| problem.into_diagnostic(source)));
                return TextVolumes::default();
            }
        };
        let mut secrets = vec![];
        for object in &objects {
            mask::for_each_secret(object, &mut |span| secrets.push(span));
        }
        let comments = mask_comments::secret_comments(text, syntax, &objects, mask::is_sensitive);
        secrets.extend(comments.into_iter().map(|range| SourceMap::span(source, range)));
        secrets.sort_unstable();
        secrets.into_iter().for_each(|span| self.sources.hide(span));
        let has_secrets = objects.iter().any(mask::has_sensitive_key);
        let (mut of_other_form, mut values) = (Diagnostics::default(), vec![]);
        let mut hide = |span| values.push(span);
        let is_of_other_form = refuse_api_volumes(&objects, syntax, &mut of_other_form)
            || refuse_terraform(&mut objects, syntax, &mut of_other_form, &mut hide);
        if is_of_other_form {
            let entries =
                objects.iter().flat_map(|object| object.entries.iter().chain(&object.duplicates));
            entries.for_each(|entry| entry.value.for_each_scalar(&mut hide));
        }
        values.sort_unstable();
        values.into_iter().for_each(|span| self.sources.hide(span));
        if is_of_other_form {
            // What else is wrong with it does not matter.
            *problems = of_other_form;
            self.has_unread_text = true;
            return TextVolumes::default();
        }
        problems.extend(of_other_form);
        if syntax == Syntax::Hcl
            && let Some(warning) = unrendered_text(text, source)
        {
            problems.push(warning);
        }
        let is_kept =
            objects.iter().any(|object| is_of_language(object) && needs_expansion(object));
        let document = Document { has_secrets, text, source, syntax, defaults: self.defaults };
        let flat = if is_kept {
            if self.sources.is_withheld(source) {
                problems.push(withheld(self.sources.name(source), true));
                return TextVolumes::default();
            }
            // A document in Nomad's flat form is one of its own, also beside documents of the language.
            let (objects, flat): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_of_language);
            flat.iter().for_each(|object| warn_of_literals(object, problems));
            self.kept.push(KeptText { text, source, syntax, has_secrets, index, objects });
            flat
        } else {
            objects
        };
        if flat.is_empty() && is_kept {
            return TextVolumes::default();
        }
        let decoded = decode::decode(&flat, &document, problems);
        let mut doubtful = decoded.doubtful;
        doubtful.sort_unstable();
        doubtful.into_iter().for_each(|span| self.sources.hide(span));
        TextVolumes { volumes: decoded.volumes, sets: decoded.sets }
    }

    /// Parses the files of variables, and hides the values of those that are sensitive.
    fn variable_files<'f>(
        &mut self,
        given: &GivenVariables,
        texts: &'f [Arc<str>],
    ) -> Vec<VariableFile<'f>> {
        let plain = self.plain_names();
        let mut files = vec![];
        for ((source, syntax), text) in given.files.iter().zip(texts) {
            let source = *source;
            let syntax = match *syntax {
                Syntax::Hcl if Syntax::looks_like_json(text) => Syntax::Json,
                syntax => syntax,
            };
            let mut problems = Diagnostics::default();
            let parsed = match syntax {
                Syntax::Hcl => hcl::parse_variables(text, source, &mut problems),
                Syntax::Json => json::parse(text, source, &mut problems),
                Syntax::Yaml => yaml::parse(text, source, &mut problems).and_then(|mut objects| {
                    match objects.len() {
                        0 => Ok(Object::default()),
                        1 => Ok(objects.swap_remove(0)),
                        _ => {
                            let message = "a file of variables has one document";
                            Err(ParseError::syntax(0..0, message))
                        }
                    }
                }),
            };
            match parsed {
                Ok(object) => {
                    let entries = object.entries.iter().chain(&object.duplicates);
                    for entry in entries {
                        // Without a declaration that says otherwise, a value may be secret, and so may its keys.
                        if !plain.contains(&*entry.key.text) || mask::is_sensitive(&entry.key.text)
                        {
                            entry.value.for_each_scalar(&mut |span| self.sources.hide(span));
                            entry.value.for_each_key(&mut |span| self.sources.hide(span));
                        }
                    }
                    let name = self.sources.name(source).to_owned();
                    files.push(VariableFile { object, name });
                    self.diagnostics.extend(problems);
                }
                Err(problem) => {
                    // Its names are arbitrary, so any of its values may be secret.
                    self.sources.hide(SourceMap::span(source, 0..text.len()));
                    self.has_unread_variables = true;
                    self.diagnostics.push(problem.into_diagnostic(source));
                }
            }
        }
        files
    }

    /// Returns the names of variables that are not sensitive, and hides the defaults of all others. There is none if a
    /// text could not be read, which may declare any name.
    fn plain_names(&mut self) -> BTreeSet<String> {
        let (mut plain, mut sensitive) = (BTreeSet::new(), BTreeSet::new());
        let objects = self.kept.iter().flat_map(|kept| &kept.objects);
        for variable in objects.flat_map(declared_variables) {
            match variable.is_sensitive {
                false => plain.insert(variable.name.to_owned()),
                true => sensitive.insert(variable.name.to_owned()),
            };
            for default in variable.defaults.iter().filter(|_| variable.is_sensitive) {
                let sources = &mut *self.sources;
                default.for_each_scalar(&mut |span| sources.hide(span));
                default.for_each_key(&mut |span| sources.hide(span));
            }
        }
        plain.retain(|name| !sensitive.contains(name));
        if self.has_unread_text { BTreeSet::new() } else { plain }
    }

    /// Makes the volumes of the kept texts, and returns all of the run.
    fn finish(mut self, given: &GivenVariables, files: &[VariableFile<'_>]) -> ReadRun {
        let documents: Vec<Document<'_>> = self
            .kept
            .iter()
            .map(|kept| Document {
                has_secrets: kept.has_secrets,
                text: kept.text,
                source: kept.source,
                syntax: kept.syntax,
                defaults: self.defaults,
            })
            .collect();
        let mut objects = vec![];
        for (at, kept) in self.kept.iter().enumerate() {
            objects.extend(kept.objects.iter().map(|object| (at, object)));
        }
        let room = MAX_VOLUMES.saturating_sub(self.volume_count) + 1;
        let has_errors = self.diagnostics.has_errors();
        let has_all_values = !self.has_unread_variables;
        let run = Run { documents: &documents, given, files, has_errors, has_all_values, room };
        let mut problems = Diagnostics::default();
        let expansion = run.expand(&objects, &mut self.names, &mut problems);
        let mut doubtful = expansion.doubtful;
        doubtful.sort_unstable();
        doubtful.into_iter().for_each(|span| self.sources.hide(span));
        self.diagnostics.extend(self.shown(problems));
        for (at, spec) in expansion.volumes {
            let index = self.kept.get(at).map(|kept| kept.index);
            if let Some(found) = index.and_then(|index| self.found.get_mut(index)) {
                found.volumes.push(spec);
            }
        }
        let mut parsed =
            Parsed { empty: expansion.empty, variables: expansion.variables, ..Parsed::default() };
        parsed.sets.extend(expansion.sets);
        for found in self.found {
            // The first ones, mostly all, are not copied.
            match parsed.volumes.is_empty() {
                true => parsed.volumes = found.volumes,
                false => parsed.volumes.extend(found.volumes),
            }
            parsed.sets.extend(found.sets);
        }
        ReadRun { parsed, problems: self.diagnostics }
    }

    /// Returns problems of which nothing is in a withheld text; one problem stands for all of each such text.
    fn shown(&self, problems: Diagnostics) -> Diagnostics {
        let withheld_of = |problem: &Diagnostic| {
            let labels = problem.labels.iter().map(|label| label.span.source);
            labels.into_iter().find(|source| self.sources.is_withheld(*source))
        };
        let mut shown = Diagnostics::default();
        let mut reported = vec![];
        for problem in problems {
            match withheld_of(&problem) {
                None => shown.push(problem),
                Some(source) if reported.contains(&source) => {}
                Some(source) => {
                    reported.push(source);
                    shown.push(withheld(self.sources.name(source), true));
                }
            }
        }
        shown
    }
}

/// The problem of a text of which nothing may be shown.
pub(super) fn withheld(name: &str, has_errors: bool) -> Diagnostic {
    let code = Code::FilesForeignLink;
    let link = format!("`{name}` is a link to a file outside its directory");
    let problem = if has_errors {
        Diagnostic::error(code, format!("{link}, and not a valid specification"))
    } else {
        Diagnostic::warning(code, format!("{link}, and there are warnings about it"))
    };
    problem
        .note("its content is not shown: it may be another file than you expect")
        .help(code.advice())
}

/// Returns what to hide in a text that does not parse: all of it if it is too much to search.
pub(super) fn hidden_ranges(text: &str, syntax: Syntax, problem: &ParseError) -> Vec<Range<usize>> {
    // A default of a sensitive variable has a name of any kind.
    let may_have_sensitive_default = text.contains("variable") && text.contains("sensitive");
    if problem.code == Code::SpecTooManyValues || may_have_sensitive_default {
        return std::iter::once(0..text.len()).collect();
    }
    mask_text::possible_secrets(text, syntax)
}

/// Parses a text to its objects, with the expressions of those that are of the language.
pub(super) fn parse_with_expressions<'a>(
    text: &'a str,
    source: SourceId,
    syntax: Syntax,
    names: &mut Names,
    problems: &mut Diagnostics,
) -> Result<Vec<Object<'a>>, ParseError> {
    let mut objects = match syntax {
        Syntax::Hcl => {
            let object = hcl::parse_specification(text, source, is_of_language, names, problems)?;
            return Ok(vec![object]);
        }
        Syntax::Json => vec![json::parse(text, source, problems)?],
        Syntax::Yaml => yaml::parse(text, source, problems)?,
    };
    for object in objects.iter_mut().filter(|object| is_of_language(object)) {
        read_templates(object, text, syntax, names, problems);
    }
    Ok(objects)
}

/// Parses a text without expressions to its objects.
pub(super) fn parse_objects<'a>(
    text: &'a str,
    source: SourceId,
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Object<'a>>, ParseError> {
    match syntax {
        Syntax::Hcl => hcl::parse(text, source, diagnostics).map(|object| vec![object]),
        Syntax::Json => json::parse(text, source, diagnostics).map(|object| vec![object]),
        Syntax::Yaml => yaml::parse(text, source, diagnostics),
    }
}
