//! Makes the volumes of `volume` blocks, one after the other.
//!
//! A block declares one volume, none with `enabled = false`, or as many as `count` or `for_each` say. Each takes its class
//! and the `defaults` of its file, is decoded, and its tree is dropped before the next one. Of a class only those fields are
//! evaluated that the volume does not give.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::declarations::{Class, Declarations, VolumeBlock};
use super::instances::{Instances, instances_of};
use super::layers::layered;
use super::value_sources::ValueSources;
use super::values::{NoValue, expression_value, value_node};
use super::variable_values::VariableValue;
use super::walk::for_each_expression;
use crate::decode::{self, Document, NamedBlock, Reader, ScalarConversion};
use crate::expression::budget::Budget;
use crate::expression::evaluate::{Scope, VolumeNames};
use crate::expression::names::{Reference, references};
use crate::expression::problem::suggestion;
use crate::expression::value::{Kind, Value};
use crate::origin::{FieldPlaces, Layer, Origin, with_value_sources};
use crate::repeated::RepeatedProblems;
use crate::schema;
use crate::syntax::Syntax;
use crate::tree::{Entry, Node, Object, SpannedText, Value as NodeValue};
use crate::volume_spec::{VolumeSpec, too_many_volumes};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Span};

/// A block that declares no volume, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyBlock {
    /// The reason: "`enabled` of `audit` is `false`".
    pub reason: String,
    /// The position of the value.
    pub place: Span,
}

/// The volumes of all blocks.
#[derive(Default)]
pub(crate) struct Expansion {
    /// The volumes, each with the index of its document.
    pub(crate) volumes: Vec<(usize, VolumeSpec)>,
    /// The sets that documents name, with their positions.
    pub(crate) sets: Vec<(SetName, Span)>,
    /// Positions of values under unknown keys, which may be secrets.
    pub(crate) doubtful: Vec<Span>,
    /// The blocks that declare no volume.
    pub(crate) empty: Vec<EmptyBlock>,
    /// The variables that have values.
    pub(crate) variables: Vec<VariableValue>,
    /// The first place that uses each variable, by its slot, in the fields that volumes take.
    pub(super) used: BTreeMap<u32, Span>,
    /// True if a value could not be evaluated, which another problem explains.
    pub(super) is_incomplete: bool,
}

/// The values of variables and local values, by slot.
pub(super) struct Globals {
    pub(super) variables: Vec<Option<Value>>,
    pub(super) locals: Vec<Option<Value>>,
    /// Where the values of variables come from.
    pub(super) sources: ValueSources,
}

/// Expands all blocks of a run. `room` is the number of volumes that the run may still have.
pub(super) fn expand(
    declarations: &Declarations<'_, '_>,
    documents: &[Document<'_>],
    globals: &Globals,
    (room, budget): (usize, &mut Budget),
    diagnostics: &mut Diagnostics,
) -> Expansion {
    let found = Expansion::default();
    let taken = BTreeMap::new();
    let mut expander = Expander {
        declarations,
        documents,
        globals,
        room,
        is_full: false,
        suggestions_left: MAX_SUGGESTIONS,
        budget,
        diagnostics,
        found,
        taken,
    };
    expander.check_layers();
    let sets = declarations.sets.iter();
    let sets: BTreeMap<usize, (SetName, Span)> = sets
        .filter_map(|(document, object, entry)| Some((*object, expander.set(*document, entry)?)))
        .collect();
    for block in &declarations.volumes {
        let before = expander.found.volumes.len();
        expander.block(block);
        for (_, spec) in expander.found.volumes.iter_mut().skip(before) {
            spec.set = sets.get(&block.object).cloned();
        }
    }
    expander.found.sets = sets.into_values().collect();
    expander.found
}

/// Limit of the unknown classes that are compared with known ones.
const MAX_SUGGESTIONS: usize = 100;

struct Expander<'e, 't, 'a> {
    declarations: &'e Declarations<'t, 'a>,
    documents: &'e [Document<'e>],
    globals: &'e Globals,
    room: usize,
    /// True if a volume had no room, which is reported.
    is_full: bool,
    /// How many unknown classes are still compared with known ones, which takes time.
    suggestions_left: usize,
    budget: &'e mut Budget,
    diagnostics: &'e mut Diagnostics,
    found: Expansion,
    /// The layers that some volume takes, by the positions of their fields, with their places.
    taken: BTreeMap<Span, Arc<FieldPlaces>>,
}

/// The layers of one volume, the nearest one first, and where they come from.
struct Layers<'t, 'a> {
    objects: Vec<&'t Object<'a>>,
    origins: Vec<Layer>,
}

impl<'e, 't, 'a> Expander<'e, 't, 'a> {
    /// Returns the reader of a document, which also knows the texts of all others.
    fn reader<'r>(&'r mut self, document: usize) -> Option<Reader<'r>> {
        let own = self.documents.get(document)?;
        Some(Reader::new(own, self.documents, self.diagnostics))
    }

    /// Decodes the set that a document names.
    fn set(&mut self, document: usize, entry: &Entry<'a>) -> Option<(SetName, Span)> {
        let places = self.globals.sources.places_of([entry]);
        let mut found = Diagnostics::default();
        let scope = self.globals.scope(None, None, None);
        let value = self.node_of(schema::SET, &entry.value, &scope, &mut found);
        let set = value.and_then(|value| {
            let entry = Entry { value, ..entry.clone() };
            let own = self.documents.get(document)?;
            Reader::new(own, self.documents, &mut found).set(&[&entry])
        });
        self.diagnostics.extend(found.map(|problem| with_value_sources(problem, &places)));
        set
    }

    /// Returns the node that a node stands for, of a key whose value is shown. Reports why there is none.
    fn node_of(
        &mut self,
        key: &str,
        node: &Node<'a>,
        scope: &Scope<'_>,
        problems: &mut Diagnostics,
    ) -> Option<Node<'a>> {
        let mut budget = self.budget.start_volume();
        let mut evaluated = Fields::new(&mut budget);
        let found = evaluated.node(node, scope);
        let sensitive = evaluated.sensitive;
        self.budget.end_volume(&budget);
        if let Some(span) = sensitive.first() {
            problems.push(sensitive_value(key, *span));
            return None;
        }
        match found {
            Ok(node) => Some(node),
            Err(NoValue::Reported) => {
                self.found.is_incomplete = true;
                None
            }
            Err(NoValue::Problem(problem)) => {
                problems.push(*problem);
                None
            }
        }
    }

    /// Expands one `volume` block.
    fn block(&mut self, block: &VolumeBlock<'t, 'a>) {
        let places = self.globals.sources.places_of(&block.block.object.entries);
        let mut found = Diagnostics::default();
        let is_enabled = self.is_enabled(block, &mut found);
        self.diagnostics.extend(found.map(|problem| with_value_sources(problem, &places)));
        let (Some(is_enabled), Some(own)) = (is_enabled, self.layers_of_block(block)) else {
            return;
        };
        if !is_enabled {
            return;
        }
        let entries = [schema::COUNT, schema::FOR_EACH].map(|key| self.unique(block, key));
        let scope = self.globals.scope(None, None, None);
        let instances = match instances_of(&block.block.label.text, entries, &scope, self.budget) {
            Ok(instances) => instances,
            Err(NoValue::Reported) => {
                self.found.is_incomplete = true;
                return;
            }
            Err(NoValue::Problem(problem)) => {
                return self.diagnostics.push(with_value_sources(*problem, &places));
            }
        };
        if let Instances::Several { list, place, .. } = &instances
            && list.is_empty()
        {
            let label = &block.block.label.text;
            let is_count = entries.iter().flatten().any(|entry| entry.key.text == schema::COUNT);
            let reason = match is_count {
                true => format!("`count` of `{label}` is 0"),
                false => format!("`for_each` of `{label}` is empty"),
            };
            self.found.empty.push(EmptyBlock { reason, place: *place });
        }
        let mut problems = RepeatedProblems::default();
        let name = &*block.block.label.text;
        for instance in instances.into_list() {
            let places = Arc::clone(&places);
            let (block_name, layers) = (name.into(), vec![]);
            let origin = Origin { block: block_name, instance: instance.origin, layers, places };
            let names = VolumeNames {
                label: name.into(),
                key: origin.key().into(),
                id: origin.id().into(),
            };
            let each = instance.each.as_ref().map(|(key, value)| (key, value));
            let scope = self.globals.scope(each, instance.index, Some(&names));
            if self.room == 0 {
                if !std::mem::replace(&mut self.is_full, true) {
                    self.diagnostics.push(too_many_volumes().label(block.block.header, ""));
                }
                break;
            }
            self.room -= 1;
            if let Some(spec) = self.volume(block, origin, (&scope, own), &mut problems) {
                self.found.volumes.push((block.document, spec));
            }
        }
        self.diagnostics.extend(problems.into_diagnostics());
    }

    /// Returns whether a block declares any volume; `None` if that is unknown.
    fn is_enabled(
        &mut self,
        block: &VolumeBlock<'t, 'a>,
        problems: &mut Diagnostics,
    ) -> Option<bool> {
        let Some(entry) = self.unique(block, schema::ENABLED) else {
            return Some(true);
        };
        let scope = self.globals.scope(None, None, None);
        let node = self.node_of(schema::ENABLED, &entry.value, &scope, problems)?;
        if matches!(node.value, NodeValue::Null) {
            return Some(true);
        }
        let own = self.documents.get(block.document)?;
        let mut reader = Reader::new(own, self.documents, problems);
        let is_enabled = reader.boolean(schema::ENABLED, &node)?;
        if !is_enabled {
            let reason = format!("`enabled` of `{}` is `false`", block.block.label.text);
            self.found.empty.push(EmptyBlock { reason, place: entry.value.span });
        }
        Some(is_enabled)
    }

    /// Returns the entry of a key of a block. Another one is an error.
    fn unique(&mut self, block: &VolumeBlock<'t, 'a>, key: &str) -> Option<&'t Entry<'a>> {
        let entries = block.block.object.entries.iter();
        let of_key: Vec<&'t Entry<'a>> = entries.filter(|entry| entry.key.text == key).collect();
        self.reader(block.document)?.single(&of_key)
    }

    /// Makes one volume of a block.
    fn volume(
        &mut self,
        block: &VolumeBlock<'t, 'a>,
        mut origin: Origin,
        (scope, choice): (&Scope<'_>, Option<&'t Entry<'a>>),
        problems: &mut RepeatedProblems,
    ) -> Option<VolumeSpec> {
        let own = &block.block;
        let mut found = Diagnostics::default();
        let Some(Layers { objects, origins }) = self.layers(block, scope, choice, &mut found)
        else {
            problems.add(&origin.id(), &origin, found);
            return None;
        };
        origin.layers = origins;
        let mut budget = self.budget.start_volume();
        let (entries, sensitive) = {
            let documents = self.documents;
            let is_field = |entry: &Entry<'_>| {
                !schema::VOLUME_BLOCK.contains(&&*entry.key.text) && !is_comment(entry, documents)
            };
            let mut fields = VolumeFields {
                scope,
                budget: &mut budget,
                found: &mut found,
                is_incomplete: &mut self.found.is_incomplete,
                sensitive: BTreeSet::new(),
                nulls: BTreeSet::new(),
            };
            let mut entries = layered(&objects, is_field, |entry| fields.entries(entry));
            if !fields.nulls.is_empty() {
                entries.iter_mut().for_each(|entry| without_nulls(&mut entry.value, &fields.nulls));
            }
            (entries, fields.sensitive)
        };
        self.budget.end_volume(&budget);
        let mut entries = entries;
        if origin.instance.is_some() {
            add_name(&mut entries, &origin, own.header);
        }
        let label = SpannedText { text: origin.id().into(), span: own.label.span };
        let object = Object { entries, duplicates: vec![] };
        let instance = NamedBlock { label: &label, header: own.header, object: &object };
        let document = self.documents.get(block.document)?;
        let (spec, doubtful) =
            decode::decode_volume(instance, (document, self.documents), &mut found);
        let id = spec.as_ref().map_or_else(|| origin.id(), |spec| spec.request.id.to_string());
        problems.add(&id, &origin, found);
        self.found.doubtful.extend(doubtful);
        let mut spec = spec?;
        spec.mark_evaluated(&sensitive);
        spec.origin = Some(Arc::new(origin));
        Some(spec)
    }

    /// Returns the entry that chooses the class: that of the block, else that of the `defaults` of its file.
    fn layers_of_block(&mut self, block: &VolumeBlock<'t, 'a>) -> Option<Option<&'t Entry<'a>>> {
        let own = self.unique(block, schema::CLASS);
        let defaults = self.declarations.defaults.get(&block.block.header.source);
        Some(own.or_else(|| defaults.and_then(|defaults| class_of(defaults.object))))
    }

    /// Returns the layers of a block: its own fields, its class, and the `defaults` of its file.
    fn layers(
        &mut self,
        block: &VolumeBlock<'t, 'a>,
        scope: &Scope<'_>,
        choice: Option<&'t Entry<'a>>,
        problems: &mut Diagnostics,
    ) -> Option<Layers<'t, 'a>> {
        let mut layers = Layers { objects: vec![block.block.object], origins: vec![] };
        if let Some(choice) = choice {
            let node = self.node_of(schema::CLASS, &choice.value, scope, problems)?;
            let own = self.documents.get(block.document)?;
            let mut reader = Reader::new(own, self.documents, problems);
            let name = reader.text(schema::CLASS, &node, ScalarConversion::AsWritten);
            if let Some(name) = name {
                let class = self.class(&name, choice.value.span, problems)?;
                layers.objects.push(class.object);
                let (body, taken) = (class.body, choice.value.span);
                let places = self.places_of_layer(body, class.object);
                layers.origins.push(Layer { class: Some(name.into()), body, taken, places });
            } else if !matches!(node.value, NodeValue::Null) {
                return None;
            }
        }
        if let Some(defaults) = self.declarations.defaults.get(&block.block.header.source) {
            layers.objects.push(defaults.object);
            let (body, taken) = (defaults.body, defaults.header);
            let places = self.places_of_layer(body, defaults.object);
            layers.origins.push(Layer { class: None, body, taken, places });
        }
        Some(layers)
    }

    /// Returns the places of a layer, and notes its variables when it is taken for the first time.
    fn places_of_layer(&mut self, body: Span, object: &Object<'_>) -> Arc<FieldPlaces> {
        if let Some(places) = self.taken.get(&body) {
            return Arc::clone(places);
        }
        self.note_uses(object);
        let places = self.globals.sources.places_of(&object.entries);
        self.taken.insert(body, Arc::clone(&places));
        places
    }

    /// Notes the variables that a layer uses.
    fn note_uses(&mut self, object: &Object<'_>) {
        for entry in &object.entries {
            for_each_expression(&entry.value, &mut |expression| {
                for (reference, at) in references(&expression.root) {
                    if let Reference::Variable(slot) = reference {
                        let place = expression.place.of(&at);
                        self.found.used.entry(slot).or_insert(place);
                    }
                }
            });
        }
    }

    /// Returns a class. Reports an unknown one.
    fn class(
        &mut self,
        name: &str,
        at: Span,
        problems: &mut Diagnostics,
    ) -> Option<&'e Class<'t, 'a>> {
        let found = self.declarations.classes.get(name);
        if found.is_none() {
            let message = format!("unknown class `{name}`");
            let label = match self.suggestions_left {
                0 => "not declared".to_owned(),
                _ => suggestion(name, self.declarations.classes.keys().copied(), "not declared"),
            };
            self.suggestions_left = self.suggestions_left.saturating_sub(1);
            let problem = Diagnostic::error(Code::SpecUnknownClass, message).label(at, label);
            problems.push(problem.help(Code::SpecUnknownClass.advice()));
        }
        found
    }

    /// Checks classes and `defaults`, also those that no volume takes.
    fn check_layers(&mut self) {
        let classes = self.declarations.classes.values();
        let classes = classes.map(|class| (class.object, class.header.source, true));
        let defaults = self.declarations.defaults.values();
        let defaults = defaults.map(|fields| (fields.object, fields.header.source, false));
        for (object, source, is_class) in classes.chain(defaults) {
            let found = self.documents.binary_search_by_key(&source, |document| document.source);
            let Some(mut reader) = found.ok().and_then(|at| self.reader(at)) else {
                continue;
            };
            reader.layer(object, is_class);
            let doubtful = std::mem::take(&mut reader.possible_secrets);
            self.found.doubtful.extend(doubtful);
        }
    }
}

impl Globals {
    /// Returns the scope of a place.
    fn scope<'s>(
        &'s self,
        each: Option<(&'s Value, &'s Value)>,
        index: Option<i64>,
        volume: Option<&'s VolumeNames>,
    ) -> Scope<'s> {
        let (variables, locals) = (&self.variables, &self.locals);
        Scope { variables, locals, each, count_index: index, volume, place: None }
    }
}

/// Evaluates the fields of one volume.
struct VolumeFields<'f> {
    scope: &'f Scope<'f>,
    budget: &'f mut Budget,
    found: &'f mut Diagnostics,
    is_incomplete: &'f mut bool,
    /// The positions of sensitive values.
    sensitive: BTreeSet<Span>,
    /// The positions of expressions that are null: their keys are absent.
    nulls: BTreeSet<Span>,
}

impl VolumeFields<'_> {
    /// Returns the entries that an entry stands for: several if its value is a list of objects.
    fn entries<'a>(&mut self, entry: &Entry<'a>) -> Vec<Entry<'a>> {
        let mut evaluated = Fields::new(self.budget);
        let value = evaluated.node(&entry.value, self.scope);
        let Fields { sensitive, sensitive_names, nulls, .. } = evaluated;
        self.nulls.extend(nulls);
        let value = match value {
            Ok(value) => value,
            Err(problem) => {
                match problem {
                    NoValue::Reported => *self.is_incomplete = true,
                    NoValue::Problem(problem) => self.found.push(shown(*problem, entry)),
                }
                Node::invalid(entry.value.span)
            }
        };
        let refused: Vec<Span> = match sensitive.is_empty() {
            true => vec![],
            false => sensitive
                .iter()
                .filter(|span| sensitive_names.contains(span) || !allows_sensitive(entry, **span))
                .copied()
                .collect(),
        };
        if !refused.is_empty() {
            for span in refused {
                self.found.push(sensitive_value(&entry.key.text, span));
            }
            let value = Node::invalid(entry.value.span);
            return vec![Entry { value, ..entry.clone() }];
        }
        self.sensitive.extend(sensitive);
        let mut object = Object::default();
        object.push(entry.key.clone(), entry.labels.clone(), value);
        for made in &mut object.entries {
            made.list = made.list.or(entry.list);
        }
        object.entries
    }
}

/// Returns whether a sensitive value may stand at a place of an entry: as a value of `secrets`, or in `mount_flags`.
fn allows_sensitive(entry: &Entry<'_>, at: Span) -> bool {
    let field = schema::volume_field(&entry.key.text).map(|field| field.key);
    match (field, &entry.value.value) {
        (Some("secrets"), _) => true,
        (Some("mount_options"), NodeValue::Object(options)) => {
            let flags = options.entries.iter().filter(|pair| pair.key.text == "mount_flags");
            flags.into_iter().any(|pair| pair.value.span.contains(at))
        }
        _ => false,
    }
}

/// Returns a problem of a field without the values of secrets and of mount flags, which are not shown.
fn shown(problem: Diagnostic, entry: &Entry<'_>) -> Diagnostic {
    const WITH_VALUES: [Code; 3] =
        [Code::SpecFunctionArguments, Code::SpecNoSuchItem, Code::SpecDuplicateField];
    let field = schema::volume_field(&entry.key.text).map(|field| field.key);
    if !matches!(field, Some("secrets" | "mount_options")) || !WITH_VALUES.contains(&problem.code) {
        return problem;
    }
    let message = format!("an expression of `{}` has no value", entry.key.text);
    let hidden = Diagnostic::error(problem.code, message).help(problem.code.advice());
    problem.labels.iter().fold(hidden, |hidden, label| hidden.label(label.span, ""))
}

fn sensitive_value(key: &str, at: Span) -> Diagnostic {
    let message = format!("`{key}` has a sensitive value, which plans would show");
    Diagnostic::error(Code::SpecSensitiveValue, message)
        .label(at, "a sensitive value")
        .help("use sensitive variables in `secrets` and `mount_flags` only")
}

/// Replaces the expressions of nodes by their values.
struct Fields<'b> {
    budget: &'b mut Budget,
    /// The positions of expressions with sensitive values.
    sensitive: BTreeSet<Span>,
    /// Those of them whose names would be shown: keys of maps, and arguments of references.
    sensitive_names: BTreeSet<Span>,
    /// The positions of expressions that are null, or have parts that are.
    nulls: BTreeSet<Span>,
}

impl<'b> Fields<'b> {
    fn new(budget: &'b mut Budget) -> Self {
        let (sensitive, sensitive_names, nulls) = Default::default();
        Self { budget, sensitive, sensitive_names, nulls }
    }
}

impl Fields<'_> {
    fn node<'a>(&mut self, node: &Node<'a>, scope: &Scope<'_>) -> Result<Node<'a>, NoValue> {
        let span = node.span;
        let value = match &node.value {
            NodeValue::Expression(expression) => {
                let value = expression_value(expression, scope, self.budget)?;
                if value.holds_sensitive() {
                    self.sensitive.insert(span);
                }
                if value.is_sensitive && matches!(value.kind, Kind::Map(..) | Kind::Secret(_)) {
                    self.sensitive_names.insert(span);
                }
                if matches!(value.kind, Kind::Null | Kind::Map(..) | Kind::List(..)) {
                    self.nulls.insert(span);
                }
                return value_node(&value, span, self.budget);
            }
            NodeValue::List(items) => {
                let items = items.iter().map(|item| self.node(item, scope));
                NodeValue::List(items.collect::<Result<_, _>>()?)
            }
            NodeValue::Object(object) => {
                let mut evaluated = Object::default();
                for entry in &object.entries {
                    let value = self.node(&entry.value, scope)?;
                    let is_computed = matches!(entry.value.value, NodeValue::Expression(_));
                    if is_computed && matches!(value.value, NodeValue::Null) {
                        // It is kept for the merge, because it may remove an inherited key.
                        evaluated.entries.push(Entry { value, ..entry.clone() });
                        continue;
                    }
                    evaluated.push(entry.key.clone(), entry.labels.clone(), value);
                    if let (Some(made), Some(list)) = (evaluated.entries.last_mut(), entry.list) {
                        made.list = Some(list);
                    }
                }
                NodeValue::Object(evaluated)
            }
            NodeValue::Scalar(scalar) => {
                let limit = |limit| NoValue::limit(limit, span);
                self.budget.take_values(1).map_err(limit)?;
                self.budget.take_text(scalar.text.len()).map_err(limit)?;
                node.value.clone()
            }
            NodeValue::Null | NodeValue::Invalid | NodeValue::Reference(_) | NodeValue::Unknown => {
                node.value.clone()
            }
        };
        Ok(Node { value, span })
    }
}

/// Removes the keys whose expressions are null.
fn without_nulls(node: &mut Node<'_>, nulls: &BTreeSet<Span>) {
    match &mut node.value {
        NodeValue::Object(object) => {
            object.entries.retain(|entry| {
                !(matches!(entry.value.value, NodeValue::Null) && nulls.contains(&entry.value.span))
            });
            object.entries.iter_mut().for_each(|entry| without_nulls(&mut entry.value, nulls));
        }
        NodeValue::List(items) => items.iter_mut().for_each(|item| without_nulls(item, nulls)),
        NodeValue::Null
        | NodeValue::Invalid
        | NodeValue::Scalar(_)
        | NodeValue::Reference(_)
        | NodeValue::Unknown
        | NodeValue::Expression(_) => {}
    }
}

/// Returns whether an entry is a comment, which JSON writes as a key `//`.
fn is_comment(entry: &Entry<'_>, documents: &[Document<'_>]) -> bool {
    let source = entry.key.span.source;
    entry.key.text == "//"
        && documents
            .binary_search_by_key(&source, |document| document.source)
            .is_ok_and(|at| documents.get(at).is_some_and(|one| one.syntax == Syntax::Json))
}

/// Returns the entry with the class that `defaults` give.
fn class_of<'t, 'a>(defaults: &'t Object<'a>) -> Option<&'t Entry<'a>> {
    defaults.entries.iter().find(|entry| entry.key.text == schema::CLASS)
}

/// Names an instance if no layer does.
fn add_name(entries: &mut Vec<Entry<'_>>, origin: &Origin, header: Span) {
    let is_name = |entry: &Entry<'_>| entry.key.text.eq_ignore_ascii_case("name");
    if !entries.iter().any(is_name) {
        entries.push(Entry {
            key: SpannedText { text: "name".into(), span: header },
            labels: vec![],
            value: Node::text(origin.key(), header),
            list: None,
        });
    }
}
