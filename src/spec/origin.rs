//! The block that declares a volume, and where its values come from.
//!
//! A volume of the language can have values of a class and of `defaults`, and one block can declare several volumes. A
//! problem of such a volume names the way from the block to the place, because the place alone may be in a class that
//! hundreds of volumes take.

use std::sync::Arc;

use nomad_csi_model::diagnostic::{Diagnostic, Span};

/// How a block of the language leads to a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The label of the block.
    pub block: Box<str>,
    /// The instance, if the block has `count` or `for_each`.
    pub instance: Option<Instance>,
    /// The positions of the layers under the block: the class that it takes, and `defaults`.
    pub layers: Vec<Layer>,
    /// The places of the block's own fields.
    pub(crate) places: Arc<FieldPlaces>,
}

/// Where the value of a variable comes from, for messages. It never holds the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueSource {
    /// The beginning of the fact: "`var.env` has its value from `--var-file`".
    pub(crate) text: Box<str>,
    /// The position of the value, if it is in a file.
    pub(crate) place: Option<Span>,
}

/// An expression with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpressionSources {
    /// The position of the expression.
    pub(crate) at: Span,
    /// Its variables: two at most.
    pub(crate) variables: Vec<Arc<ValueSource>>,
    /// True if it uses `each`, whose value comes from the variables of `for_each`.
    pub(crate) uses_each: bool,
}

/// Where the fields of a block or a layer are written, and which variables are in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldPlaces {
    /// The positions of keys and values. In YAML, those of an alias are elsewhere than the block.
    pub(crate) written: Vec<Span>,
    /// The expressions with variables, in the order of their positions.
    pub(crate) expressions: Vec<ExpressionSources>,
}

impl FieldPlaces {
    fn contains(&self, at: Span) -> bool {
        self.written.iter().any(|span| span.contains(at))
    }

    /// Returns the expression in which a position is.
    fn expression_at(&self, at: Span) -> Option<&ExpressionSources> {
        let is_before =
            |one: &ExpressionSources| (one.at.source, one.at.start) <= (at.source, at.start);
        let after = self.expressions.partition_point(is_before);
        let before = after.checked_sub(1).and_then(|index| self.expressions.get(index));
        before.filter(|one| one.at.contains(at))
    }
}

/// Adds the origins of the values in the expression in which a problem is.
pub(crate) fn with_value_sources(problem: Diagnostic, places: &FieldPlaces) -> Diagnostic {
    let at = problem.labels.first().map(|label| label.span);
    let found = at.and_then(|at| places.expression_at(at));
    let variables = found.into_iter().flat_map(|found| &found.variables);
    variables.fold(problem, |problem, source| problem.step(&*source.text, source.place))
}

/// One of the volumes of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its index or key.
    pub key: InstanceKey,
    /// The position of the key `count` or `for_each`.
    pub place: Span,
    /// The position of its value.
    pub(crate) value: Span,
}

/// What tells the volumes of a block apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceKey {
    /// An index from 0 of `count`.
    Index(u32),
    /// A key of `for_each`.
    Key(Box<str>),
}

/// A class or `defaults` that a volume takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of the class; `None` for `defaults`.
    pub class: Option<Box<str>>,
    /// The position of its fields.
    pub body: Span,
    /// The position of the choice: the value of `class`, or the header of `defaults`.
    pub taken: Span,
    /// The places of its fields.
    pub(crate) places: Arc<FieldPlaces>,
}

impl Origin {
    /// Returns the volume's ID, unless the block gives another one: `db`, `db[0]`, `db-eu`.
    pub fn id(&self) -> String {
        match self.instance.as_ref().map(|instance| &instance.key) {
            None => self.block.to_string(),
            Some(InstanceKey::Index(index)) => format!("{}[{index}]", self.block),
            Some(InstanceKey::Key(key)) => format!("{}-{key}", self.block),
        }
    }

    /// Returns the ID in a form that providers accept in names: `db`, `db-0`, `db-eu`.
    pub fn key(&self) -> String {
        match self.instance.as_ref().map(|instance| &instance.key) {
            None => self.block.to_string(),
            Some(InstanceKey::Index(index)) => format!("{}-{index}", self.block),
            Some(InstanceKey::Key(key)) => format!("{}-{key}", self.block),
        }
    }

    /// Returns the class or `defaults` in which a value of the volume is written, if it is not in the block itself.
    pub fn layer_at(&self, place: Span) -> Option<&Layer> {
        // The same anchor can give fields to the block and to its layers, and the nearest one applies.
        let is_in = |places: &FieldPlaces| places.contains(place);
        let layer = self.layers.iter().find(|layer| is_in(&layer.places));
        layer.filter(|_| !is_in(&self.places))
    }

    /// Returns where the values come from that decide the expression at a position.
    fn value_sources(&self, at: Option<Span>) -> Vec<&ValueSource> {
        let layers = self.layers.iter().map(|layer| &layer.places);
        let mut all = std::iter::once(&self.places).chain(layers);
        let Some(found) = at.and_then(|at| all.find_map(|places| places.expression_at(at))) else {
            return vec![];
        };
        let of_each = self.instance.as_ref().filter(|_| found.uses_each).map(|one| one.value);
        let of_each = self
            .places
            .expressions
            .iter()
            .filter(|one| of_each.is_some_and(|at| at.contains(one.at)));
        let variables = found.variables.iter().chain(of_each.flat_map(|one| &one.variables));
        let mut sources: Vec<&ValueSource> = vec![];
        for source in variables.map(Arc::as_ref) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        sources.truncate(2);
        sources
    }

    /// Adds the trail to a problem of this volume, and of `others` more of the block.
    #[must_use]
    pub fn explain(&self, id: &str, problem: Diagnostic, others: usize) -> Diagnostic {
        let at = problem.labels.first().map(|label| label.span);
        let mut problem = problem;
        if let Some(instance) = &self.instance {
            let word = match instance.key {
                InstanceKey::Index(_) => "count",
                InstanceKey::Key(_) => "for_each",
            };
            let volumes = match others {
                0 => format!("in volume `{id}`"),
                others => format!("in volume `{id}` and {others} more of this block"),
            };
            problem = problem.step(format!("{volumes}, from `{word}` at"), Some(instance.place));
        }
        if let Some(layer) = at.and_then(|at| self.layer_at(at)) {
            if self.instance.is_none() {
                problem = problem.step(format!("in volume `{id}`"), None);
            }
            let text = match &layer.class {
                Some(class) => format!("from class `{class}`, which the volume takes at"),
                None => "from `defaults` at".to_owned(),
            };
            problem = problem.step(text, Some(layer.taken));
        }
        self.value_sources(at)
            .into_iter()
            .fold(problem, |problem, source| problem.step(&*source.text, source.place))
    }
}
