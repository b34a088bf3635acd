//! [`Finding`]: one problem of a volume, what proves it, and what helps.

use nomad_csi_model::NodeId;

/// The rule that found a problem. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The creation of the volume did not end.
    CreationPending,
    /// The server does not know the plugin.
    PluginMissing,
    /// The plugin requires a controller, and none is healthy.
    ControllerUnhealthy,
    /// No node of the plugin is healthy.
    NodesUnhealthy,
    /// The provider does not list the volume's data.
    DataMissing,
    /// A claim of an ended allocation is not released.
    ReleaseStuck,
    /// The server has no allocation of a claim.
    ClaimWithoutAllocation,
    /// A claim cannot be published.
    PublishStuck,
    /// A node with a claim is down, and the claim stays.
    NodeDown,
    /// An allocation uses the volume on a node without a healthy plugin, so it cannot be released.
    NodePluginGone,
    /// A claim is being released.
    ReleaseRunning,
    /// An allocation that must stop still uses the volume.
    AllocationStopping,
    /// A job waits for the volume.
    JobWaiting,
    /// The tasks of an allocation that names the volume did not start.
    TasksNotStarted,
    /// An allocation may write to the volume, and has no claim that keeps others away.
    WritesWithoutClaim,
    /// Two registrations of data for one writer are written at once.
    WrittenTwice,
    /// Data that is not for many writers is registered twice.
    RegisteredTwice,
    /// The provider reports the volume as attached to a node without a claim.
    AttachedWithoutClaim,
    /// The provider or a node reports that data of the volume is lost.
    DataLost,
    /// The provider reports that no node can use the volume, or a node that it cannot.
    VolumeInaccessible,
    /// The provider or a node reports another problem of the volume.
    ConditionAbnormal,
    /// Files were written beside the volume while it was not mounted.
    FilesBeside,
    /// A node was declared lost, and is not used until it is swept.
    NodeFenced,
}

impl Rule {
    /// Returns the name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreationPending => "creation-pending",
            Self::PluginMissing => "plugin-missing",
            Self::ControllerUnhealthy => "controller-unhealthy",
            Self::NodesUnhealthy => "nodes-unhealthy",
            Self::DataMissing => "data-missing",
            Self::ReleaseStuck => "release-stuck",
            Self::ClaimWithoutAllocation => "claim-without-allocation",
            Self::PublishStuck => "publish-stuck",
            Self::NodeDown => "node-down",
            Self::NodePluginGone => "node-plugin-gone",
            Self::ReleaseRunning => "release-running",
            Self::AllocationStopping => "allocation-stopping",
            Self::JobWaiting => "job-waiting",
            Self::TasksNotStarted => "tasks-not-started",
            Self::WritesWithoutClaim => "writes-without-claim",
            Self::WrittenTwice => "written-twice",
            Self::RegisteredTwice => "registered-twice",
            Self::AttachedWithoutClaim => "attached-without-claim",
            Self::DataLost => "data-lost",
            Self::VolumeInaccessible => "volume-inaccessible",
            Self::ConditionAbnormal => "condition-abnormal",
            Self::FilesBeside => "files-beside-volume",
            Self::NodeFenced => "node-fenced",
        }
    }

    /// Returns whether the rule explains a claim that is not released.
    pub const fn is_about_release(self) -> bool {
        match self {
            Self::ReleaseStuck
            | Self::ClaimWithoutAllocation
            | Self::ReleaseRunning
            | Self::NodeDown => true,
            Self::CreationPending
            | Self::PluginMissing
            | Self::ControllerUnhealthy
            | Self::NodesUnhealthy
            | Self::DataMissing
            | Self::PublishStuck
            | Self::NodePluginGone
            | Self::AllocationStopping
            | Self::JobWaiting
            | Self::TasksNotStarted
            | Self::WritesWithoutClaim
            | Self::WrittenTwice
            | Self::RegisteredTwice
            | Self::AttachedWithoutClaim
            | Self::DataLost
            | Self::VolumeInaccessible
            | Self::ConditionAbnormal
            | Self::FilesBeside
            | Self::NodeFenced => false,
        }
    }

    /// Returns how severe what the rule finds is.
    pub const fn severity(self) -> Severity {
        match self {
            Self::PluginMissing
            | Self::ControllerUnhealthy
            | Self::NodesUnhealthy
            | Self::DataMissing
            | Self::DataLost
            | Self::VolumeInaccessible
            | Self::ReleaseStuck
            | Self::ClaimWithoutAllocation
            | Self::PublishStuck
            | Self::NodeDown
            | Self::TasksNotStarted
            | Self::WritesWithoutClaim
            | Self::WrittenTwice => Severity::Error,
            Self::CreationPending
            | Self::NodePluginGone
            | Self::ReleaseRunning
            | Self::AllocationStopping
            | Self::JobWaiting
            | Self::RegisteredTwice
            | Self::AttachedWithoutClaim
            | Self::ConditionAbnormal
            | Self::FilesBeside
            | Self::NodeFenced => Severity::Warning,
        }
    }
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It may end by itself, or may become an error.
    Warning,
    /// The volume cannot be used or released until someone acts.
    Error,
}

impl Severity {
    /// Returns the name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The server or the provider reported it.
    Known,
    /// It follows from what they reported, and another cause is possible.
    Inferred,
}

impl Confidence {
    /// Returns the name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Inferred => "inferred",
        }
    }
}

/// Where a fact comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactSource {
    /// The server's record of the volume, with its allocations.
    Volume,
    /// The agent's list of claims.
    Claims,
    /// The server's record of the plugin.
    Plugin,
    /// The server's list of nodes.
    Nodes,
    /// The server's allocations, with their jobs.
    Allocations,
    /// The server's evaluations.
    Evaluations,
    /// The provider's list of volumes.
    Provider,
    /// The health of a volume or of its storage, as a plugin reports it.
    Health,
}

impl FactSource {
    /// Returns the name, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Claims => "claims",
            Self::Plugin => "plugin",
            Self::Nodes => "nodes",
            Self::Allocations => "allocations",
            Self::Evaluations => "evaluations",
            Self::Provider => "provider",
            Self::Health => "health",
        }
    }
}

/// A fact that supports a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Where it comes from.
    pub source: FactSource,
    /// The fact: a clause.
    pub fact: String,
}

impl Evidence {
    /// A fact from a source.
    pub(super) fn new(source: FactSource, fact: impl Into<String>) -> Self {
        let fact = fact.into();
        Self { source, fact }
    }
}

/// A remedy that this program can run without a risk for data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SafeFix {
    /// Detach the volume from a node. The server refuses while an allocation there uses it.
    Detach(NodeId),
}

/// Something that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The remedy: an imperative.
    pub action: String,
    /// The command for it; `None` if it is no command.
    pub command: Option<String>,
    /// How this program does it; `None` if a person must decide.
    pub fix: Option<SafeFix>,
}

impl std::fmt::Display for Remedy {
    /// ``check the plugin: `nomad-csi plugin status ebs` ``.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.action)?;
        match &self.command {
            Some(command) => write!(f, ": `{command}`"),
            None => Ok(()),
        }
    }
}

/// One problem of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: Rule,
    /// The problem and its reason: a sentence without a full stop.
    pub verdict: String,
    /// How sure that is.
    pub confidence: Confidence,
    /// The facts that prove it.
    pub evidence: Vec<Evidence>,
    /// Remedies; the first one changes least.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// Returns the verdict for a note, which says if it is inferred.
    pub fn note(&self) -> String {
        match self.confidence {
            Confidence::Known => self.verdict.clone(),
            Confidence::Inferred => format!("{} (inferred)", self.verdict),
        }
    }

    /// Returns the first remedy that this program can run.
    pub fn safe_fix(&self) -> Option<&SafeFix> {
        self.remedies.iter().find_map(|remedy| remedy.fix.as_ref())
    }
}
