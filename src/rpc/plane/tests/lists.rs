//! Lists of allocations.

use nomad_csi_model::{AllocReport, ClientStatus};
use nomad_csi_ports::{AssignedAlloc, AssignedAllocs, ControlPlane as _, UnreadableAlloc};

use super::super::alloc_list::{InvalidList, ListDecoder, ListEncoder};
use super::super::messages::{AllocsPart, allocs_item::Item};
use super::bed::{Bed, assigned, at, soon};

fn sent_whole(parts: &[AllocsPart]) -> usize {
    let items = parts.iter().flat_map(|part| &part.items);
    items.filter(|item| matches!(item.item, Some(Item::Assigned(_)))).count()
}

fn received(
    decoder: &mut ListDecoder,
    parts: Vec<AllocsPart>,
) -> Result<AssignedAllocs, InvalidList> {
    let mut parts = parts.into_iter();
    let last = parts.next_back().unwrap();
    for part in parts {
        assert_eq!(decoder.add(part)?, None);
    }
    Ok(decoder.add(last)?.unwrap().1)
}

fn full_list() -> AssignedAllocs {
    let report = AllocReport {
        status: ClientStatus::Running,
        description: "Tasks are running".to_owned(),
        tasks: [("web".to_owned(), nomad_csi_model::TaskState::default())].into(),
    };
    let second = AssignedAlloc { report: Some(report), wants_stop: true, ..assigned("a2") };
    AssignedAllocs {
        revision: 9,
        allocs: vec![assigned("a1"), second],
        unreadable: vec![UnreadableAlloc {
            id: "a3".into(),
            wants_stop: true,
            cut_off: ["data".into()].into(),
            plugins: ["p".into()].into(),
            reason: "no key".to_owned(),
        }],
        ended: vec!["z".into(), "y".into()],
        left_plugins: vec![("y".into(), "p".into())],
    }
}

#[test]
fn a_list_comes_back_and_what_is_unchanged_is_only_named() {
    let (mut encoder, mut decoder) = (ListEncoder::default(), ListDecoder::default());
    let (mut list, position) = (full_list(), at("c1", 5, 100));
    let parts = encoder.encode(list.clone(), &position);
    assert_eq!(sent_whole(&parts), 2);
    assert_eq!(received(&mut decoder, parts).unwrap(), list);

    list.revision += 1;
    list.allocs[0].cut_off.clear();
    list.allocs.push(assigned("b"));
    let parts = encoder.encode(list.clone(), &position);
    assert_eq!(sent_whole(&parts), 2);
    assert_eq!(received(&mut decoder, parts).unwrap(), list);

    list.revision += 1;
    list.allocs.remove(1);
    list.unreadable.clear();
    let parts = encoder.encode(list.clone(), &position);
    assert_eq!(sent_whole(&parts), 0);
    assert_eq!(received(&mut decoder, parts).unwrap(), list);

    // A new stream knows nothing of the one before.
    let parts = encoder.encode(list, &position);
    let unknown = received(&mut ListDecoder::default(), parts);
    assert_eq!(unknown, Err(InvalidList::UnknownAlloc));
}

#[test]
fn a_list_counts_only_with_all_its_parts_in_order() {
    let large = |id: String| {
        let mut alloc = assigned(&id);
        let text = "x".repeat(3 << 20);
        let report =
            AllocReport { status: ClientStatus::Running, description: text, tasks: [].into() };
        alloc.report = Some(report);
        alloc
    };
    let allocs = (0..4).map(|number| large(number.to_string())).collect();
    let list = AssignedAllocs { revision: 9, allocs, ..AssignedAllocs::default() };
    let encoded = ListEncoder::default().encode(list.clone(), &at("c1", 5, 100));
    let parts = || encoded.clone();
    assert_eq!(parts().len(), 4);
    assert_eq!(received(&mut ListDecoder::default(), parts()).unwrap(), list);
    // Without the first part, without one between, and with the next list in between.
    for missing in [0, 1, 2] {
        let mut decoder = ListDecoder::default();
        let left = parts().into_iter().enumerate().filter(|(at, _)| *at != missing);
        let ended =
            left.map(|(_, part)| decoder.add(part)).find(|added| !matches!(added, Ok(None)));
        match missing {
            0 => assert_eq!(ended, Some(Err(InvalidList::OtherList))),
            // A stream loses no message in between, so nothing looks for that.
            _ => assert!(ended.is_some()),
        }
    }
    let mut decoder = ListDecoder::default();
    assert_eq!(decoder.add(parts().remove(0)), Ok(None));
    assert_eq!(decoder.add(parts().remove(0)), Err(InvalidList::OtherList));
    let mut decoder = ListDecoder::default();
    assert_eq!(decoder.add(parts().remove(0)), Ok(None));
    let mut other = parts().remove(1);
    other.revision += 1;
    assert_eq!(decoder.add(other), Err(InvalidList::OtherList));
}

#[test]
fn an_allocation_that_is_too_large_to_send_is_listed_as_unreadable() {
    let mut alloc = assigned("a1");
    let description = "x".repeat(16 << 20);
    alloc.report =
        Some(AllocReport { status: ClientStatus::Running, description, tasks: [].into() });
    let list = AssignedAllocs { revision: 9, allocs: vec![alloc], ..AssignedAllocs::default() };
    let parts = ListEncoder::default().encode(list, &at("c1", 5, 100));
    let list = received(&mut ListDecoder::default(), parts).unwrap();
    assert_eq!((list.allocs.len(), list.unreadable.len()), (0, 1));
    assert!(list.unreadable[0].reason.contains("bytes"), "{}", list.unreadable[0].reason);
}

#[tokio::test]
async fn ten_thousand_allocations_reach_the_node_and_so_does_each_change() {
    let bed = Bed::new().await;
    let (control, node) = (bed.plane.control_of("n1"), &bed.node.remote);
    for number in 0..10_000 {
        control.assign(assigned(&format!("a{number:05}")));
    }
    let listed = soon("the list", node.assigned(None)).await.unwrap();
    assert_eq!(listed.allocs.len(), 10_000);
    assert_eq!(listed, control.assigned(None).await.unwrap());
    control.stop(&"a07777".into());
    let next = soon("the change", node.assigned(Some(listed.revision))).await.unwrap();
    assert_eq!(next, control.assigned(None).await.unwrap());
    assert!(next.allocs[7_777].wants_stop);
    assert!(next.revision > listed.revision);
}
