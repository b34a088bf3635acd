//! The block that declares a volume, and where its values come from.
//!
//! A volume of the language can have values of a class and of `defaults`, and one block can declare several volumes. A
//! problem of such a volume names the way from the block to the place, because the place alone may be in a class that
//! hundreds of volumes take.

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
}

/// One of the volumes of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its index or key.
    pub key: InstanceKey,
    /// The position of the key `count` or `for_each`.
    pub place: Span,
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
        self.layers.iter().find(|layer| layer.body.contains(place))
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
        problem
    }
}
