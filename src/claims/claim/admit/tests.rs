//! Admission: every cell of the tables of access modes, and every other reason.

use super::*;
use crate::claim::samples::{all_capabilities, capability, permissive, request};
use nomad_csi_model::AttachmentMode;

use AccessMode::{
    MultiNodeMultiWriter, MultiNodeReaderOnly, MultiNodeSingleWriter, SingleNodeReaderOnly,
    SingleNodeWriter,
};

fn decide(record: &Claims, request: &ClaimRequest) -> Result<Admission, ClaimDenied> {
    admit(record, request, permissive(&all_capabilities()))
}

fn reason(record: &Claims, request: &ClaimRequest) -> Option<String> {
    let denied = decide(record, request).err()?;
    Some(denied.to_string())
}

/// A record in which these requests were granted in turn.
fn granted(requests: impl IntoIterator<Item = ClaimRequest>) -> Claims {
    let mut record = Claims::default();
    for request in requests {
        grant(&mut record, request);
    }
    record
}

fn grant(record: &mut Claims, request: ClaimRequest) {
    let (key, claim) = request.granted(0);
    record.modes.get_or_insert(claim.usage.capability);
    record.claims.insert(key, claim);
}

fn reader(alloc: &str, node: &str, mode: AccessMode) -> ClaimRequest {
    ClaimRequest { read_only: true, ..request(alloc, node, mode) }
}

/// B18, W12: in every access mode, whether a reader and a writer fit beside a reader and a writer.
/// Nomad lets a writer in beside a reader of a single-node volume. W46: readers are checked too.
#[test]
fn every_cell_of_the_access_mode_table_is_kept() {
    const FULL: Option<&str> = Some("volume max claims reached");
    const REFUSED: Option<&str> = Some("volume is currently unschedulable");
    for (mode, first, second, expected) in [
        (SingleNodeReaderOnly, None, "reader", None),
        (SingleNodeReaderOnly, None, "writer", REFUSED),
        (SingleNodeReaderOnly, Some("reader"), "reader", FULL),
        (SingleNodeReaderOnly, Some("reader"), "writer", REFUSED),
        (SingleNodeWriter, None, "reader", None),
        (SingleNodeWriter, None, "writer", None),
        (SingleNodeWriter, Some("reader"), "reader", FULL),
        (SingleNodeWriter, Some("reader"), "writer", FULL),
        (SingleNodeWriter, Some("writer"), "reader", FULL),
        (SingleNodeWriter, Some("writer"), "writer", FULL),
        (MultiNodeReaderOnly, None, "writer", REFUSED),
        (MultiNodeReaderOnly, Some("reader"), "reader", None),
        (MultiNodeReaderOnly, Some("reader"), "writer", REFUSED),
        (MultiNodeSingleWriter, Some("reader"), "reader", None),
        (MultiNodeSingleWriter, Some("reader"), "writer", None),
        (MultiNodeSingleWriter, Some("writer"), "reader", None),
        (MultiNodeSingleWriter, Some("writer"), "writer", FULL),
        (MultiNodeMultiWriter, Some("reader"), "writer", None),
        (MultiNodeMultiWriter, Some("writer"), "reader", None),
        (MultiNodeMultiWriter, Some("writer"), "writer", None),
    ] {
        let of = |kind: &str, alloc: &str| match kind {
            "reader" => reader(alloc, "n1", mode),
            _ => request(alloc, "n1", mode),
        };
        let record = granted(first.map(|kind| of(kind, "a1")));
        let found = reason(&record, &of(second, "a2"));
        assert_eq!(found.as_deref(), expected, "{mode}: {first:?}, then {second}");
    }
}

/// B45: a claim in release keeps its place. W62: the denial names each holder.
#[test]
fn a_claim_in_release_keeps_its_place_and_is_named() {
    let mut record = granted([request("a1", "n1", SingleNodeWriter)]);
    record.claims.values_mut().next().unwrap().intent = crate::claim::Intent::Release;
    let denied = decide(&record, &request("a2", "n1", SingleNodeWriter)).unwrap_err();
    let holders: Vec<_> = denied.holders.iter().map(ToString::to_string).collect();
    assert_eq!(holders, ["allocation `a1` writes on node `n1` (detaching)"]);
    assert!(denied.can_succeed_later());
}

/// W61: the same allocation asks again while its claim is held, in release, or for another node.
#[test]
fn the_same_allocation_gets_its_claim_again_only_while_it_is_held() {
    let own = request("a1", "n1", SingleNodeWriter);
    let mut record = granted([own.clone()]);
    assert_eq!(decide(&record, &own), Ok(Admission::Held));
    let elsewhere = request("a1", "n2", SingleNodeWriter);
    let otherwise = request("a1", "n1", MultiNodeMultiWriter);
    for other in [elsewhere, otherwise] {
        let denied = decide(&record, &other).unwrap_err();
        assert_eq!(denied.reason, ClaimDeniedReason::OtherClaim);
        assert!(!denied.can_succeed_later());
    }
    record.claims.values_mut().next().unwrap().intent = crate::claim::Intent::Release;
    let denied = decide(&record, &own).unwrap_err();
    assert_eq!(denied.reason, ClaimDeniedReason::BeingReleased);
}

/// B88: a claim moves from reading to writing and back where a new claim would be admitted in its place, as long as
/// nothing is published for it. Then its tasks may use the volume, and it changes by a release and a new claim.
#[test]
fn a_claim_moves_between_reading_and_writing_where_its_mode_admits_it() {
    const FULL: &str = "volume max claims reached";
    const REFUSED: &str = "volume is currently unschedulable";
    // The mode, what other allocations do, and what becomes of a reader that asks to write.
    let cases: [(_, &[&str], Option<&str>); 11] = [
        (SingleNodeReaderOnly, &[], Some(REFUSED)),
        (SingleNodeWriter, &[], None),
        (MultiNodeReaderOnly, &[], Some(REFUSED)),
        (MultiNodeReaderOnly, &["reader"], Some(REFUSED)),
        (MultiNodeSingleWriter, &[], None),
        (MultiNodeSingleWriter, &["reader"], None),
        (MultiNodeSingleWriter, &["writer"], Some(FULL)),
        (MultiNodeSingleWriter, &["reader", "writer"], Some(FULL)),
        (MultiNodeMultiWriter, &[], None),
        (MultiNodeMultiWriter, &["writer"], None),
        (MultiNodeMultiWriter, &["reader", "writer"], None),
    ];
    for (mode, others, expected) in cases {
        let others = others.iter().map(|kind| match *kind {
            "reader" => reader("a-reader", "n1", mode),
            _ => request("a-writer", "n1", mode),
        });
        let mut record = granted([reader("a1", "n1", mode)].into_iter().chain(others));
        let writing = request("a1", "n1", mode);
        let context = format!("{mode}: {record:?}");
        match expected {
            None => {
                assert_eq!(decide(&record, &writing), Ok(Admission::Changed), "{context}");
                let key = writing.key.clone();
                let place = crate::claim::EventPlace { index: 1, time: 1 };
                let changed =
                    crate::claim::ClaimEvent::AccessChanged { key: key.clone(), read_only: false };
                crate::claim::apply(&mut record, &changed, place);
                assert!(!record.claims[&key].read_only);
                assert_eq!(decide(&record, &writing), Ok(Admission::Held), "{context}");
                let reading = reader("a1", "n1", mode);
                assert_eq!(decide(&record, &reading), Ok(Admission::Changed), "{context}");
            }
            Some(text) => {
                let denied = decide(&record, &writing).unwrap_err();
                assert_eq!(denied.to_string(), text, "{context}");
                assert!(
                    denied.holders.iter().all(|holder| holder.alloc.as_str() != "a1"),
                    "{context}: its own claim is not in the way"
                );
            }
        }
        for published in [Known::Maybe, Known::Yes] {
            let mut record = granted([reader("a1", "n1", mode)]);
            record.claims.get_mut(&writing.key).unwrap().published = published;
            let denied = decide(&record, &writing).unwrap_err();
            assert_eq!(denied.reason, ClaimDeniedReason::OtherClaim, "{published:?}");
            let changed = crate::claim::ClaimEvent::AccessChanged {
                key: writing.key.clone(),
                read_only: false,
            };
            assert!(!crate::claim::is_valid(&record, &changed), "{published:?}");
        }
    }
    let other_node = request("a1", "n2", MultiNodeMultiWriter);
    let record = granted([reader("a1", "n1", MultiNodeMultiWriter)]);
    let denied = decide(&record, &other_node).unwrap_err();
    assert_eq!(denied.reason, ClaimDeniedReason::OtherClaim);
}

/// B88: until a release has ended, a claim counts as what it was.
#[test]
fn a_reader_in_release_is_no_writer() {
    let mode = MultiNodeSingleWriter;
    let mut record = granted([reader("a1", "n1", mode)]);
    let writing = request("a1", "n1", mode);
    record.claims.values_mut().next().unwrap().intent = crate::claim::Intent::Release;
    let denied = decide(&record, &writing).unwrap_err();
    assert_eq!(denied.reason, ClaimDeniedReason::BeingReleased);
    let holders: Vec<_> = denied.holders.iter().map(ToString::to_string).collect();
    assert_eq!(holders, ["allocation `a1` reads on node `n1` (detaching)"]);
    record.claims.clear();
    assert_eq!(decide(&record, &writing), Ok(Admission::Granted));
}

/// B87: a node without room for the volume gets neither another reader nor another writer, and other nodes do.
#[test]
fn a_node_without_room_gets_no_other_claim() {
    let mode = MultiNodeMultiWriter;
    let mut record = granted([request("a1", "n1", mode)]);
    let fail = |record: &mut Claims, exhausted, time| {
        let failed = crate::claim::ClaimEvent::StepFailed {
            step: crate::claim::Step::ControllerPublish(NodeId::new("n1")),
            error: format!("no room {exhausted}"),
            help: None,
            exhausted,
        };
        let place = crate::claim::EventPlace { index: 1, time };
        crate::claim::apply(record, &failed, place);
    };
    fail(&mut record, false, 5);
    for desired in [request("a2", "n1", mode), reader("a2", "n1", mode)] {
        assert_eq!(decide(&record, &desired), Ok(Admission::Granted));
    }
    fail(&mut record, true, 7);
    let since = record.claims.values().find_map(Claim::exhausted_since);
    assert_eq!(since, Some(7));
    for desired in [request("a2", "n1", mode), reader("a2", "n1", mode)] {
        let denied = decide(&record, &desired).unwrap_err();
        assert_eq!(denied.reason, ClaimDeniedReason::Exhausted(NodeId::new("n1")));
        assert!(denied.can_succeed_later());
        let placement = admit_placement(&record, &desired, permissive(&all_capabilities()));
        assert_eq!(placement, Err(denied));
    }
    assert_eq!(decide(&record, &request("a2", "n2", mode)), Ok(Admission::Granted));
    assert_eq!(decide(&record, &request("a1", "n1", mode)), Ok(Admission::Held));
}

/// W11: Nomad checks neither the capability list nor the mode in force, so a multi-writer claim opens a
/// single-writer volume. B15, B19, W46.
#[test]
fn a_claim_needs_a_capability_of_the_volume_and_the_mode_in_force() {
    let single = [capability(SingleNodeWriter)];
    let desired = request("a2", "n2", MultiNodeMultiWriter);
    let denied = admit(&Claims::default(), &desired, permissive(&single)).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "the volume does not have the capability multi-node-multi-writer, file-system"
    );
    let record = granted([request("a1", "n1", SingleNodeWriter)]);
    assert_eq!(reason(&record, &desired).as_deref(), Some("volume max claims reached"));
    let readers = [capability(MultiNodeReaderOnly)];
    let writer = request("a1", "n1", SingleNodeWriter);
    let denied = admit(&Claims::default(), &writer, permissive(&readers)).unwrap_err();
    assert_eq!(denied.to_string(), "volume is currently unschedulable");
}

/// B14: a later reader may have another mode on another node; the mode in force stays.
#[test]
fn a_later_reader_may_have_another_mode_that_fits() {
    let record = granted([request("a1", "n1", MultiNodeSingleWriter)]);
    assert_eq!(decide(&record, &reader("a2", "n2", MultiNodeReaderOnly)), Ok(Admission::Granted));
    let second_writer = request("a3", "n3", MultiNodeMultiWriter);
    assert!(decide(&record, &second_writer).is_err());
}

#[test]
fn the_attachment_mode_of_a_claimed_volume_does_not_change() {
    let record = granted([request("a1", "n1", MultiNodeMultiWriter)]);
    let mut block = request("a2", "n2", MultiNodeMultiWriter);
    block.usage.capability.attachment_mode = AttachmentMode::BlockDevice;
    assert_eq!(
        reason(&record, &block).as_deref(),
        Some("cannot change attachment mode of claimed volume")
    );
}

/// W48: one staging path per volume and node means one usage; other nodes are free to differ.
#[test]
fn a_node_has_one_usage_of_a_volume() {
    let record = granted([request("a1", "n1", MultiNodeMultiWriter)]);
    let with_xfs = |node| {
        let mut request = request("a2", node, MultiNodeMultiWriter);
        request.usage.fs_type = "xfs".into();
        request
    };
    assert_eq!(
        reason(&record, &with_xfs("n1")).as_deref(),
        Some("the volume is used on node `n1` with other modes or mount options")
    );
    assert_eq!(decide(&record, &with_xfs("n2")), Ok(Admission::Granted));
}

/// W45: an admission counts the volumes that are claimed on the node already, the own one not twice.
#[test]
fn the_plugins_volume_limit_is_found_from_both_sides() {
    let capabilities = all_capabilities();
    let desired = request("a1", "n1", MultiNodeMultiWriter);
    let with = |others, record: &Claims| {
        let limit = Some(3);
        let node_volumes = NodeVolumes { others, limit };
        let facts = AdmissionFacts { node_volumes, ..permissive(&capabilities) };
        admit(record, &desired, facts).map_err(|denied| denied.to_string())
    };
    let unused = Claims::default();
    assert_eq!(with(2, &unused), Ok(Admission::Granted));
    assert_eq!(
        with(3, &unused).unwrap_err(),
        "node `n1` has reached the plugin's limit of 3 volumes"
    );
    let used = granted([request("a0", "n1", MultiNodeMultiWriter)]);
    assert_eq!(with(3, &used), Ok(Admission::Granted));
}

/// B87: a volume whose plugin is unhealthy gets neither a reader nor a writer.
#[test]
fn a_lost_node_and_a_plugin_without_health_get_no_claim() {
    let capabilities = all_capabilities();
    let writer = request("a1", "n1", SingleNodeWriter);
    let reader = reader("a1", "n1", SingleNodeWriter);
    let usual = permissive(&capabilities);
    for (facts, expected) in [
        (AdmissionFacts { is_node_lost: true, ..usual }, "node `n1` is lost or not swept yet"),
        (AdmissionFacts { is_schedulable: false, ..usual }, "volume is currently unschedulable"),
    ] {
        for desired in [&reader, &writer] {
            let denied = admit(&Claims::default(), desired, facts).unwrap_err();
            assert_eq!(denied.to_string(), expected);
        }
    }
}
