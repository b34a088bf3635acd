//! What may happen to a volume, as a set of inputs, and which of them are explored together.
//!
//! The inputs of one machine are explored all at once, as they always were. All inputs, also those of several
//! machines, are explored in pairs: each two of them in layouts that have what they need, and none else.

use nomad_csi_claims::claim::PluginSteps;

use super::{ATTACHES, BOTH, LAYOUTS, Layout, NEITHER, PLUGINS, STAGES};

macro_rules! inputs {
    ($($name:ident = $what:literal)*) => {
        /// One kind of event, beside claims, ends of allocations and calls whose reply is lost.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Input { $($name),* }
        /// Every input with what it lets happen.
        pub(super) const INPUTS: &[(Input, &str)] = &[$((Input::$name, $what)),*];
    };
}

inputs! {
    Leaders       = "the leader changes, up to twice; those before it go on sending"
    AgentRestarts = "the agent of a host starts again; its session is committed later"
    HeldUp        = "a request arrives late, or never"
    Losses        = "nodes are lost, return, and are lost again"
    Outlasting    = "tasks run on while their node is lost, and after its return"
    Reboots       = "nodes reboot"
    Vanishing     = "mounts vanish"
    Registrations = "one of two registrations is removed by force, and made again"
    PluginChanges = "the plugin gains and loses attach and stage"
    Controllers   = "another of two controllers is chosen, and controllers end"
    VolumeCalls   = "the volume is created, expanded and deleted, by two controllers"
    AccessChanges = "a held claim asks to read instead of write, and back"
    NoRoom        = "a node has no room for the volume"
    CutOffs       = "an operator cuts running tasks off"
}

impl Input {
    pub(super) fn name(self) -> &'static str {
        let mut inputs = INPUTS.iter();
        inputs.find(|(input, _)| *input == self).map_or("", |(_, what)| what)
    }
}

/// A set of inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Inputs(u32);

impl Inputs {
    pub(super) const fn of(inputs: &[Input]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < inputs.len() {
            bits |= 1 << inputs[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    pub(super) const fn has(self, input: Input) -> bool {
        self.0 & (1 << input as u32) != 0
    }

    pub(super) const fn with(self, input: Input) -> Self {
        Self(self.0 | 1 << input as u32)
    }

    pub(super) const fn without(self, inputs: &[Input]) -> Self {
        Self(self.0 & !Self::of(inputs).0)
    }

    /// Returns whether the plugin has two controllers.
    pub(super) const fn has_two_controllers(self) -> bool {
        self.has(Input::Controllers) || self.has(Input::VolumeCalls)
    }
}

/// What can happen to one machine, all at once.
pub(super) const ONE_MACHINE: Inputs = Inputs::of(&[
    Input::HeldUp,
    Input::Losses,
    Input::Reboots,
    Input::Vanishing,
    Input::Registrations,
    Input::PluginChanges,
]);

/// Two inputs that are explored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair(pub(super) Input, pub(super) Input);

impl Pair {
    /// Every pair, in the order of the inputs.
    pub(super) fn all() -> Vec<Self> {
        let mut pairs = vec![];
        for (at, (one, _)) in INPUTS.iter().enumerate() {
            pairs.extend(INPUTS[at + 1..].iter().map(|(other, _)| Self(*one, *other)));
        }
        pairs
    }

    pub(super) fn has(self, input: Input) -> bool {
        self.0 == input || self.1 == input
    }

    /// What happens: nodes must be lost for tasks to outlast that.
    pub(super) fn inputs(self) -> Inputs {
        let inputs = Inputs::of(&[self.0, self.1]);
        match self.has(Input::Outlasting) {
            true => inputs.with(Input::Losses),
            false => inputs,
        }
    }

    /// Returns how many calls may be under way at once. More than one claim makes two calls at once expensive.
    pub(super) fn calls_at_once(self, layout: &Layout) -> usize {
        let is_cheap = self == Self(Input::Leaders, Input::AgentRestarts)
            || self == Self(Input::Leaders, Input::HeldUp);
        if is_cheap || layout.requests.len() == 1 { 2 } else { 1 }
    }

    /// The layouts with what both inputs need, each with its plugins.
    pub(super) fn cases(self) -> Vec<(&'static Layout, PluginSteps)> {
        let names: &[(&str, &[PluginSteps])] = if self.has(Input::Registrations) {
            match self.has(Input::PluginChanges) {
                true => &[("two registrations on node 1, plugin that changes", &[NEITHER])],
                false => &[
                    ("a writer and a reader of two registrations on node 1", &[ATTACHES, BOTH]),
                    ("a writer on node 1 or one of another registration on 2", &[ATTACHES]),
                ],
            }
        } else if self.has(Input::PluginChanges) {
            &[
                ("a writer on node 1, plugin that changes", &[NEITHER]),
                ("writers on node 1 and 2, where one instance stages", &[NEITHER]),
            ]
        } else if self.has(Input::AccessChanges) {
            &[("two writers on node 1 of which one can write", &[ATTACHES, STAGES])]
        } else {
            &[
                ("a writer on node 1", &PLUGINS),
                ("a writer on node 1 or one on 2", &[ATTACHES, NEITHER]),
                ("writer and reader on node 1", &[BOTH]),
            ]
        };
        let cases = names.iter().flat_map(|(name, plugins)| {
            let layout = LAYOUTS.iter().find(|layout| layout.name == *name).unwrap();
            plugins.iter().map(move |plugin| (layout, *plugin))
        });
        cases.collect()
    }
}
