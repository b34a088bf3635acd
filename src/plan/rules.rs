//! The rules of a server: how it merges updates, which sizes it creates, which fields it shows.
//!
//! The rules depend on the server and its version; Nomad's have changed three times. The planner uses
//! the rules of its server and the agent its own. Both use [`crate::merge()`], so the plan and
//! the agent always agree.

use std::borrow::Cow;

use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ServerVersion, UnresolvedRequest, Volume};

/// The rules of one server version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeRules {
    /// How an update applies to the volume as a whole.
    pub update: UpdateRule,
    /// When two topology requests are equal, and how they merge before the volume has a topology (W21).
    pub topologies: TopologyRule,
    /// When two mount options are equal (W19).
    pub mount_options: MountOptionsRule,
    /// The effect of an update without secrets on the stored secrets (W20). An empty map clears them
    /// on every server.
    pub omitted_secrets: OmittedMap,
    /// The effect of an update without context, or with an empty one, on the stored context
    /// (GH-24922).
    pub omitted_context: OmittedMap,
    /// The size that a volume of unknown size is assumed to have.
    pub unknown_capacity: UnknownCapacityRule,
    /// The sizes that a volume can be created with.
    pub creates: CreateRule,
    /// The name under which a plugin creates a volume.
    pub names: NameRule,
    /// The fields of a volume that a read does not show.
    pub unreported: UnreportedFields,
}

/// The name under which a plugin creates a volume. A plugin answers a creation with the volume that it has of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// The name in the request, so volumes of one name get the same data (W13).
    AsRequested,
    /// A name that no other volume has.
    Unique,
}

/// The sizes that a volume can be created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateRule {
    /// A minimum, a maximum, both or neither.
    AnyRange,
    /// A minimum requires a maximum: the server takes a missing maximum for zero bytes and refuses
    /// before it calls the plugin (Nomad before 1.6.3).
    WithMaximum,
    /// Either of the two. A create is tried, because a refusal leaves nothing behind. A replacement
    /// is not tried, because it would already have removed the volume.
    MaybeWithMaximum,
}

/// How an update applies to a volume as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateRule {
    /// The update overwrites the volume, unless that is in use (Nomad 1.1 and 1.2).
    Overwrite,
    /// The update merges field by field, unless the volume is in use. Sizes never change (Nomad 1.3
    /// to 1.6.2).
    WhileUnused,
    /// The update merges field by field, with a rule for each field (Nomad since 1.6.3, the agent).
    FieldByField,
}

/// Fields that a volume has and a read does not show. The plan neither finds nor assumes a
/// difference in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreportedFields {
    /// Sizes, capabilities and the source of a copy: before 1.1.13 and 1.2.7.
    pub sizes: bool,
    /// Mount options: before 1.3.
    pub mount_options: bool,
    /// The topology request: before 1.3.
    pub topology_request: bool,
}

/// The meaning of a map that is not in the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmittedMap {
    /// The stored map stays.
    Keep,
    /// The stored map is cleared.
    Clear,
}

/// How topology requests merge. While the volume has topologies, both rules refuse a different
/// request (B03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyRule {
    /// Compared in order, absent differs from empty; ignored while the volume has no topologies.
    ByPosition,
    /// Compared as sets, absent is empty; stored while the volume has no topologies.
    AsSets,
}

/// How mount options merge. The update replaces them; an update without them clears them. While the
/// volume is claimed, both rules refuse different options: existing mounts keep the old ones, so the
/// volume would be mounted in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountOptionsRule {
    /// Stored as absent differs from empty (`null` from `{}`).
    AbsentDiffers,
    /// Stored as absent is empty.
    AbsentIsEmpty,
}

/// The assumed size of a volume whose provider reported none: a directory, or a volume that was only
/// registered. Under both rules a larger minimum expands the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCapacityRule {
    /// Zero bytes: every minimum expands the volume, even the one it was created with.
    IsZero,
    /// The minimum that was requested before.
    HoldsRecordedMinimum,
}

impl MergeRules {
    /// Nomad 1.9.6 and later.
    pub const NOMAD: Self = Self {
        update: UpdateRule::FieldByField,
        topologies: TopologyRule::ByPosition,
        mount_options: MountOptionsRule::AbsentDiffers,
        omitted_secrets: OmittedMap::Clear,
        omitted_context: OmittedMap::Keep,
        unknown_capacity: UnknownCapacityRule::IsZero,
        creates: CreateRule::AnyRange,
        names: NameRule::AsRequested,
        unreported: UnreportedFields {
            sizes: false,
            mount_options: false,
            topology_request: false,
        },
    };

    /// A Nomad server of unknown version: refuses and clears everything that any version since 1.3
    /// does.
    pub const STRICTEST: Self = Self {
        update: UpdateRule::WhileUnused,
        omitted_context: OmittedMap::Clear,
        creates: CreateRule::MaybeWithMaximum,
        ..Self::NOMAD
    };

    /// The agent: omitted secrets stay, absent equals empty, order matters only where it has a
    /// meaning, and a volume of unknown size has its requested minimum.
    pub const AGENT: Self = Self {
        update: UpdateRule::FieldByField,
        topologies: TopologyRule::AsSets,
        mount_options: MountOptionsRule::AbsentIsEmpty,
        omitted_secrets: OmittedMap::Keep,
        omitted_context: OmittedMap::Keep,
        unknown_capacity: UnknownCapacityRule::HoldsRecordedMinimum,
        creates: CreateRule::AnyRange,
        names: NameRule::Unique,
        unreported: Self::NOMAD.unreported,
    };

    /// Returns the rules of a Nomad version.
    pub fn of_nomad(version: &ServerVersion) -> Self {
        let (minor, patch) = (version.minor, version.patch);
        let keeps_context = match (version.major, minor) {
            (0, _) | (1, 0..=6) => false,
            (1, 7) => patch >= 18,
            (1, 8) => patch >= 10,
            (1, 9) => patch >= 6,
            (_, _) => true,
        };
        let update = if version.is_at_least(1, 6, 3) {
            UpdateRule::FieldByField
        } else if version.is_at_least(1, 3, 0) {
            UpdateRule::WhileUnused
        } else {
            UpdateRule::Overwrite
        };
        Self {
            update,
            omitted_context: if keeps_context { OmittedMap::Keep } else { OmittedMap::Clear },
            creates: if version.is_at_least(1, 6, 3) {
                CreateRule::AnyRange
            } else {
                CreateRule::WithMaximum
            },
            unreported: UnreportedFields::of_nomad(version),
            ..Self::NOMAD
        }
    }
}

impl UnreportedFields {
    fn of_nomad(version: &ServerVersion) -> Self {
        let shows_sizes = match (version.major, version.minor) {
            (0, _) | (1, 0) => false,
            (1, 1) => version.patch >= 13,
            (1, 2) => version.patch >= 7,
            (_, _) => true,
        };
        Self {
            sizes: !shows_sizes,
            mount_options: !version.is_at_least(1, 3, 0),
            topology_request: !version.is_at_least(1, 3, 0),
        }
    }

    /// Returns the keys of these fields in a specification.
    pub fn fields(self) -> Vec<&'static str> {
        let mut fields = vec![];
        if self.sizes {
            fields.extend([
                "capacity_min",
                "capacity_max",
                "capability",
                "clone_id",
                "snapshot_id",
            ]);
        }
        if self.mount_options {
            fields.push("mount_options");
        }
        if self.topology_request {
            fields.push("topology_request");
        }
        fields
    }

    /// Returns the volume with the unreported fields set to the desired values, so that they do not
    /// differ.
    pub(super) fn filled_in<'a>(
        self,
        volume: &'a Volume,
        desired: &UnresolvedRequest,
    ) -> Cow<'a, Volume> {
        if self == Self::default() {
            return Cow::Borrowed(volume);
        }
        let mut volume = volume.clone();
        if self.sizes {
            volume.capabilities.clone_from(&desired.capabilities);
            volume.requested_capacity = desired.capacity;
            volume.clone_id.clone_from(&desired.clone_id);
            volume.snapshot_id.clone_from(&desired.snapshot_id);
        }
        if self.mount_options {
            volume.mount_options = Some(desired.mount_options.clone().unwrap_or_default());
        }
        if self.topology_request {
            volume.topology_request.clone_from(&desired.topology_request);
        }
        Cow::Owned(volume)
    }
}

/// Returns the warning about a plan for this Nomad version, or for an unknown one.
pub fn server_version_warning(version: Option<&ServerVersion>) -> Option<Diagnostic> {
    let Some(version) = version else {
        let message = "the server's version is unknown, so the plan assumes the strictest rules";
        return Some(
            Diagnostic::warning(Code::PlanUnknownVersion, message)
                .note(
                    "the plan expects every refusal and every cleared value of any Nomad since 1.3",
                )
                .help("use a token with `agent { policy = \"read\" }`, or set `--server-version`"),
        );
    };
    let fields = UnreportedFields::of_nomad(version).fields();
    if fields.is_empty() {
        return None;
    }
    let message = format!(
        "Nomad {version} does not show these fields, so the plan cannot compare them: {}",
        fields.join(", ")
    );
    Some(
        Diagnostic::warning(Code::PlanUnseenField, message)
            .note("an update overwrites these fields with the file's values, also with empty ones")
            .help("check these fields yourself, or upgrade Nomad: later versions show them"),
    )
}

#[cfg(test)]
mod tests;
