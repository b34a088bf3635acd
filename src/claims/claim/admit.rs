//! [`admit()`]: whether a claim may be granted.
//!
//! Claims that are being released count like held ones until they are gone: their call may still run
//! (B45). Claims of all registrations of the external volume count together (W13). The access mode in
//! force is that of the first claim; a claim with another mode must fit both. On one node a volume has
//! one usage, because CSI allows one staging path per volume.

use super::denied::{ClaimDenied, ClaimDeniedReason, ClaimHolder};
use super::key::ClaimKey;
use super::record::{Claim, Claims, Intent, Known};
use super::usage::ClaimUsage;
use nomad_csi_model::{AccessMode, Capability, ExternalNodeId, NamespacedId, NodeId};

/// A request to use a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The allocation and the name by which it knows the volume.
    pub key: ClaimKey,
    /// The registration.
    pub volume: NamespacedId,
    /// The node of the allocation.
    pub node: NodeId,
    /// The provider's ID of the node, if the plugin attaches volumes.
    pub external_node: Option<ExternalNodeId>,
    /// The modes and mount options.
    pub usage: ClaimUsage,
    /// True if the allocation only reads.
    pub read_only: bool,
}

impl ClaimRequest {
    /// Returns the claim that the request becomes when it is granted at this time.
    pub fn granted(self, at: i64) -> (ClaimKey, Claim) {
        let claim = Claim {
            volume: self.volume,
            node: self.node,
            external_node: self.external_node,
            usage: self.usage,
            read_only: self.read_only,
            intent: Intent::Hold,
            published: Known::No,
            call: None,
            volume_context: None,
            target: None,
            granted_at: at,
            problem: None,
        };
        (self.key, claim)
    }

    fn is_same_as(&self, claim: &Claim) -> bool {
        self.is_same_use(claim) && claim.read_only == self.read_only
    }

    fn differs_in_access(&self, claim: &Claim) -> bool {
        self.is_same_use(claim) && claim.read_only != self.read_only
    }

    fn is_same_use(&self, claim: &Claim) -> bool {
        claim.volume == self.volume && claim.node == self.node && claim.usage == self.usage
    }
}

/// The volumes of a plugin on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeVolumes {
    /// The number of other volumes of the plugin that are claimed there.
    pub others: u64,
    /// The plugin's limit from NodeGetInfo; `None` if there is none.
    pub limit: Option<u64>,
}

/// The facts that an admission needs besides the record.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionFacts<'a> {
    /// The capabilities of the registration.
    pub capabilities: &'a [Capability],
    /// True if the plugin can serve the volume.
    pub is_schedulable: bool,
    /// True if the node is lost, or has returned and is not swept yet.
    pub is_node_lost: bool,
    /// The volumes of the plugin on the node.
    pub node_volumes: NodeVolumes,
}

/// The result of an admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The claim can be granted.
    Granted,
    /// The same claim is held already.
    Held,
    /// The claim is held, has nothing on its node yet, and can read or write from now on instead (B88).
    Changed,
}

/// Decides about a request.
///
/// # Errors
/// If the claim is denied, with the first reason and the claims that are in the way.
pub fn admit(
    record: &Claims,
    request: &ClaimRequest,
    facts: AdmissionFacts<'_>,
) -> Result<Admission, ClaimDenied> {
    if let Some(own) = record.claims.get(&request.key) {
        return admit_again(record, request, own, facts);
    }
    check_plugin(record, request, facts)?;
    check_modes(record, request, facts.capabilities)?;
    check_room(record, request)?;
    check_usage(record, request)?;
    check_limit(record, request, facts.node_volumes)?;
    Ok(Admission::Granted)
}

/// Decides whether an allocation that does not exist yet could claim the volume. Its mount options are not
/// compared, because they are sealed until it claims.
///
/// # Errors
/// If the claim would be denied, with the first reason and the claims that are in the way.
pub fn admit_placement(
    record: &Claims,
    request: &ClaimRequest,
    facts: AdmissionFacts<'_>,
) -> Result<(), ClaimDenied> {
    check_plugin(record, request, facts)?;
    check_modes(record, request, facts.capabilities)?;
    check_room(record, request)?;
    check_limit(record, request, facts.node_volumes)
}

/// The volume and the node can be used at all.
fn check_plugin(
    record: &Claims,
    request: &ClaimRequest,
    facts: AdmissionFacts<'_>,
) -> Result<(), ClaimDenied> {
    let deny = |reason| Err(denied(record, reason, |_| false));
    // The claims of other registrations that are gone count like all others until they are undone.
    if record.tombstone(&request.volume).is_some() {
        return deny(ClaimDeniedReason::Detaching);
    }
    if facts.is_node_lost {
        return deny(ClaimDeniedReason::NodeLost(request.node.clone()));
    }
    if !facts.is_schedulable {
        return deny(ClaimDeniedReason::Unschedulable);
    }
    let is_exhausted =
        |claim: &Claim| claim.node == request.node && claim.exhausted_since().is_some();
    if record.claims.values().any(is_exhausted) {
        let reason = ClaimDeniedReason::Exhausted(request.node.clone());
        return Err(denied(record, reason, is_exhausted));
    }
    Ok(())
}

/// The plugin's limit of volumes per node, which counts a volume once.
fn check_limit(
    record: &Claims,
    request: &ClaimRequest,
    volumes: NodeVolumes,
) -> Result<(), ClaimDenied> {
    let NodeVolumes { others, limit } = volumes;
    let is_there = record.on(&request.node).next().is_some();
    match limit {
        Some(limit) if others >= limit && !is_there => {
            let node = request.node.clone();
            let reason = ClaimDeniedReason::NodeFull { node, limit };
            Err(denied(record, reason, |_| false))
        }
        Some(_) | None => Ok(()),
    }
}

/// The allocation has a claim of this name already (W61). It can change between reading and writing while nothing is
/// published for it, if a new claim would be admitted in its place; afterwards only by a release and a new claim,
/// because its tasks may use the volume.
fn admit_again(
    record: &Claims,
    request: &ClaimRequest,
    own: &Claim,
    facts: AdmissionFacts<'_>,
) -> Result<Admission, ClaimDenied> {
    let reason = if !own.is_held() {
        ClaimDeniedReason::BeingReleased
    } else if request.is_same_as(own) {
        return Ok(Admission::Held);
    } else if own.can_change_access() && request.differs_in_access(own) {
        let mut others = record.clone();
        others.claims.remove(&request.key);
        check_plugin(&others, request, facts)?;
        check_modes(&others, request, facts.capabilities)?;
        check_room(&others, request)?;
        return Ok(Admission::Changed);
    } else {
        ClaimDeniedReason::OtherClaim
    };
    let holders = vec![ClaimHolder::new(&request.key, own)];
    Err(ClaimDenied { reason, holders })
}

/// The modes must be among the volume's capabilities and match the claims that exist (W11, B15, B19).
fn check_modes(
    record: &Claims,
    request: &ClaimRequest,
    capabilities: &[Capability],
) -> Result<(), ClaimDenied> {
    let desired = request.usage.capability;
    let attachment_differs = |modes: Capability| modes.attachment_mode != desired.attachment_mode;
    if record.modes.is_some_and(attachment_differs) {
        return Err(denied(record, ClaimDeniedReason::AttachmentMode, |_| true));
    }
    let is_write = !request.read_only;
    let allows_writes = |capability: &Capability| capability.access_mode.allows_writes();
    if is_write && !capabilities.iter().any(allows_writes) {
        return Err(denied(record, ClaimDeniedReason::Unschedulable, |_| false));
    }
    if !capabilities.contains(&desired) {
        let reason = ClaimDeniedReason::Capability(desired);
        return Err(denied(record, reason, |_| false));
    }
    let refuses_writes = |mode: AccessMode| is_write && !mode.allows_writes();
    if refuses_writes(desired.access_mode) || record.access_mode().is_some_and(refuses_writes) {
        return Err(denied(record, ClaimDeniedReason::Unschedulable, |_| true));
    }
    Ok(())
}

/// The access mode in force and the requested one must both have room (B18, W12).
fn check_room(record: &Claims, request: &ClaimRequest) -> Result<(), ClaimDenied> {
    let modes = record.access_mode().into_iter();
    for mode in modes.chain([request.usage.capability.access_mode]) {
        let in_the_way = |claim: &Claim| excludes(mode, claim, request);
        if record.claims.values().any(in_the_way) {
            let reason = ClaimDeniedReason::MaxClaims { mode };
            return Err(denied(record, reason, in_the_way));
        }
    }
    Ok(())
}

/// Returns whether `mode` forbids the request while the claim exists. Single-node modes allow one claim, as
/// Nomad counts them, and a reader excludes a writer as a writer excludes a reader.
fn excludes(mode: AccessMode, claim: &Claim, request: &ClaimRequest) -> bool {
    match mode {
        AccessMode::SingleNodeReaderOnly | AccessMode::SingleNodeWriter => true,
        AccessMode::MultiNodeReaderOnly | AccessMode::MultiNodeMultiWriter => false,
        AccessMode::MultiNodeSingleWriter => !claim.read_only && !request.read_only,
    }
}

/// A node has one staging, and an attachment was made for one capability.
fn check_usage(record: &Claims, request: &ClaimRequest) -> Result<(), ClaimDenied> {
    let node = &request.node;
    let differs = |usage: &ClaimUsage| *usage != request.usage;
    let in_the_way = |claim: &Claim| claim.node == *node && differs(&claim.usage);
    let staged_otherwise = record.stagings.get(node).is_some_and(|staging| differs(&staging.usage));
    if staged_otherwise || record.claims.values().any(in_the_way) {
        let reason = ClaimDeniedReason::OtherUsage(node.clone());
        return Err(denied(record, reason, in_the_way));
    }
    Ok(())
}

fn denied(
    record: &Claims,
    reason: ClaimDeniedReason,
    in_the_way: impl Fn(&Claim) -> bool,
) -> ClaimDenied {
    let claims = record.claims.iter().filter(|(_, claim)| in_the_way(claim));
    ClaimDenied {
        reason,
        holders: claims.map(|(key, claim)| ClaimHolder::new(key, claim)).collect(),
    }
}

#[cfg(test)]
mod tests;
