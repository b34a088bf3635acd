//! The release of a claim whose tasks may still write.

use std::time::Duration;

use super::{agent, create, send_line, send_typed};
use crate::fake::FakeAgent;
use nomad_csi_claims::state::samples::jobs::{job, job_key};
use nomad_csi_claims::state::{State, Table, Topic};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, JobVolume, JobVolumeKind, NodeId, VolumeAlias,
};
use nomad_csi_ports::ControlPlane as _;

/// An allocation of job `web` that has volume `data` mounted.
async fn running(agent: &FakeAgent) -> AllocId {
    create(agent, "data").await;
    let mut web = job(&job_key("web"));
    let alias = VolumeAlias::new("data");
    let volume = JobVolume {
        source: "data".to_owned(),
        read_only: false,
        per_alloc: false,
        sticky: false,
        kind: JobVolumeKind::Csi {
            access_mode: Some(AccessMode::SingleNodeWriter),
            attachment_mode: Some(AttachmentMode::FileSystem),
            mount_options: None,
        },
    };
    web.groups[0].volumes.insert(alias.clone(), volume);
    agent.services.jobs.register(web, None).await.unwrap();
    let topics = |_: &State| vec![Topic::all(Table::Allocs)];
    let is_placed = |state: &State| state.allocs().len() == 1;
    let placed = agent.cell.wait_until(topics, is_placed);
    let placed = tokio::time::timeout(Duration::from_secs(60), placed).await;
    placed.unwrap().unwrap();
    let alloc = agent.state().allocs().next().unwrap().0.clone();
    let node = agent.services.control_plane(NodeId::new(FakeAgent::NODE));
    node.mount(&alloc, &alias).await.unwrap();
    alloc
}

#[tokio::test(start_paused = true)]
async fn only_an_approval_that_names_the_allocation_releases_it_under_its_tasks() {
    let agent = agent().await;
    let alloc = running(&agent).await;
    let path = format!("DELETE /v1/volume/csi/data/claim?alloc={alloc}&wait=1s");
    for (approval, status) in [
        ("", 409),
        ("&cuts_off=", 409),
        ("&force=true", 409),
        ("&cuts_off=true", 400),
        ("&cuts_off=other", 400),
    ] {
        let answer = send_line(&agent, &format!("{path}{approval}"), "").await;
        assert_eq!(answer.status, status, "{approval}: {}", answer.text());
        assert_eq!(agent.backend.targets().len(), 1, "{approval}");
    }
    let refused = send_typed(&agent, &path, "").await.json();
    assert_eq!(refused["code"], "volume/in-use");
    let expected =
        format!("allocation `{alloc}` of job `web` may still write on node `{}`", FakeAgent::NODE);
    assert_eq!(refused["notes"][0], expected.as_str());
    let cut_off = send_line(&agent, &format!("{path}&cuts_off={alloc}"), "").await;
    assert_eq!(cut_off.status, 202, "{}", cut_off.text());
    assert_eq!(agent.backend.targets().len(), 1, "the tasks are killed first");
    let claims = send_line(&agent, "GET /v1/volume/csi/data/claims", "").await;
    assert_eq!(claims.json()[0]["State"], "cutting-off");
    let node = agent.services.control_plane(NodeId::new(FakeAgent::NODE));
    let alias = VolumeAlias::new("data");
    node.note_cut_off(&alloc, &alias).await.unwrap();
    let released = send_line(&agent, &format!("{path}&cuts_off={alloc}"), "").await;
    assert!([200, 404].contains(&released.status), "{}", released.text());
    assert!(agent.backend.targets().is_empty());
    assert_eq!(agent.backend.take_violations(), Vec::<String>::new());
}
