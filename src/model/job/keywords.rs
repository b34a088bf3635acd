//! The words of a job's fields that have a fixed set of values.

use serde::{Deserialize, Serialize};

macro_rules! keywords {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All values, in the order of messages.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns Nomad's word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Returns the value of exactly this word.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )*};
}

keywords! {
    /// How the allocations of a job are placed and when they end.
    JobType {
        /// `count` allocations per group, which run until they are stopped.
        Service = "service",
        /// `count` allocations per group, which run until they end.
        Batch = "batch",
        /// One allocation per group on every node, which runs until it is stopped.
        System = "system",
        /// One allocation per group on every node, which runs until it ends.
        Sysbatch = "sysbatch",
    }

    /// The action when a task has failed as often as its policy allows.
    RestartMode {
        /// The task fails.
        Fail = "fail",
        /// The task is restarted after the interval.
        Delay = "delay",
    }

    /// How the pause before a failed allocation is replaced grows.
    DelayFunction {
        /// It does not.
        Constant = "constant",
        /// It doubles.
        Exponential = "exponential",
        /// It grows as the Fibonacci numbers do.
        Fibonacci = "fibonacci",
    }

    /// When a task runs that is not a main task.
    LifecycleHook {
        /// Before the main tasks.
        Prestart = "prestart",
        /// After the main tasks have started.
        Poststart = "poststart",
        /// After the main tasks have ended.
        Poststop = "poststop",
    }

    /// The visibility of mounts that are made below a volume on the other side.
    PropagationMode {
        /// On no side.
        Private = "private",
        /// Mounts of the host are visible in the task.
        HostToTask = "host-to-task",
        /// Mounts of either side are visible on the other.
        Bidirectional = "bidirectional",
    }

    /// The services of CSI that a plugin task serves.
    CsiPluginType {
        /// The controller service.
        Controller = "controller",
        /// The node service.
        Node = "node",
        /// Both services.
        Monolith = "monolith",
    }

    /// The number of allocations that may use a host volume, and how.
    HostAccessMode {
        /// Any number on one node, reading.
        SingleNodeReaderOnly = "single-node-reader-only",
        /// Any number on one node; the default.
        SingleNodeWriter = "single-node-writer",
        /// One allocation writes, others read.
        SingleNodeSingleWriter = "single-node-single-writer",
        /// Any number on one node, reading and writing.
        SingleNodeMultiWriter = "single-node-multi-writer",
    }

    /// The SELinux relabelling of a volume.
    SelinuxLabel {
        /// One that all containers share.
        Shared = "z",
        /// One of this container only.
        Private = "Z",
    }

    /// How a constraint compares an attribute of a node with its value.
    ConstraintOperator {
        /// Equal.
        Equal = "=",
        /// Not equal.
        NotEqual = "!=",
        /// Greater.
        Greater = ">",
        /// Greater or equal.
        GreaterOrEqual = ">=",
        /// Less.
        Less = "<",
        /// Less or equal.
        LessOrEqual = "<=",
        /// The value is a regular expression.
        Regexp = "regexp",
        /// The value is a list of version constraints.
        Version = "version",
        /// The value is a list of constraints on semantic versions.
        Semver = "semver",
        /// The attribute contains all values of a list.
        SetContains = "set_contains",
        /// The attribute contains all values of a list.
        SetContainsAll = "set_contains_all",
        /// The attribute contains one value of a list.
        SetContainsAny = "set_contains_any",
        /// The node has the attribute.
        IsSet = "is_set",
        /// The node does not have the attribute.
        IsNotSet = "is_not_set",
        /// No two allocations are on one node.
        DistinctHosts = "distinct_hosts",
        /// No more allocations than the value share the attribute.
        DistinctProperty = "distinct_property",
    }

    /// The rule for the payload of a request to dispatch a job.
    PayloadRule {
        /// It may have one.
        Optional = "optional",
        /// It must have one.
        Required = "required",
        /// It has none.
        Forbidden = "forbidden",
    }
}

impl JobType {
    /// Returns whether the job runs on every node rather than `count` times.
    pub const fn is_per_node(self) -> bool {
        match self {
            Self::Service | Self::Batch => false,
            Self::System | Self::Sysbatch => true,
        }
    }

    /// Returns whether the allocations end by themselves.
    pub const fn ends(self) -> bool {
        match self {
            Self::Service | Self::System => false,
            Self::Batch | Self::Sysbatch => true,
        }
    }
}

impl ConstraintOperator {
    /// Returns the operator of a word, also of Nomad's other words for equality.
    pub fn parse_with_synonyms(text: &str) -> Option<Self> {
        match text {
            "" | "==" | "is" => Some(Self::Equal),
            "not" => Some(Self::NotEqual),
            text => Self::parse(text),
        }
    }

    /// Returns whether a constraint needs an attribute.
    pub const fn needs_attribute(self) -> bool {
        !matches!(self, Self::DistinctHosts)
    }
}

impl CsiPluginType {
    /// Returns whether the plugin serves the controller service.
    pub const fn has_controller(self) -> bool {
        matches!(self, Self::Controller | Self::Monolith)
    }

    /// Returns whether the plugin serves the node service.
    pub const fn has_node(self) -> bool {
        matches!(self, Self::Node | Self::Monolith)
    }
}
