//! Claims of writers that cannot be stopped, on a real server. Each test needs a job whose task writes to a volume and
//! ignores its signals (`trap '' TERM INT`, a long `kill_timeout`), and names both: `NOMAD_ADDR=http://127.0.0.1:4646
//! NOMAD_CSI_TEST_WRITER=JOB:VOLUME cargo test --test suite claims_real -- --ignored`. For a lost writer, run the job,
//! kill its client and nothing else with `-9`, wait until the server shows the node as down, and give
//! `NOMAD_CSI_TEST_LOST_WRITER=JOB:VOLUME`.

use nomad_csi_client::nomad::{ClientSettings, NomadClient, RedactedString};
use nomad_csi_client::ports::{JobApi as _, VolumeReader as _};
use nomad_csi_model::{AllocId, JobId, JobKey, Namespace, NamespacedId};
use tokio_util::sync::CancellationToken;

use crate::support::client_process::run_client;
use crate::support::wait::until_async;

struct Writer {
    address: String,
    client: NomadClient,
    job: JobKey,
    volume: NamespacedId,
}

impl Writer {
    fn named_by(variable: &str) -> Self {
        let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR is set");
        let token = std::env::var("NOMAD_TOKEN").ok().map(RedactedString::new);
        let settings = ClientSettings { token, ..ClientSettings::new(address.clone()) };
        let named = std::env::var(variable).expect("the variable names JOB:VOLUME");
        let (job, volume) = named.split_once(':').expect("it is JOB:VOLUME");
        Self {
            address,
            client: NomadClient::new(&settings).expect("NOMAD_ADDR is valid"),
            job: JobKey::new(Namespace::default(), JobId::new(job)),
            volume: NamespacedId::new(Namespace::default(), volume.into()),
        }
    }

    /// Returns the oldest allocation of the job with this status, once there is one.
    async fn allocation(&self, desired: &str, client: &str) -> AllocId {
        let what = format!("an allocation that is {desired} and {client}");
        until_async(&what, async || {
            let listed = self.client.list_job_allocations(&self.job).await;
            let listed = listed.map_err(|error| error.message)?;
            let found = listed
                .iter()
                .find(|one| one.desired_status == desired && one.client_status == client);
            let found = found.ok_or_else(|| format!("none of {}", listed.len()))?;
            Ok(AllocId::new(&found.id))
        })
        .await
    }

    /// Returns whether the server has the volume with a claim of the allocation.
    async fn is_claimed_by(&self, alloc: &AllocId) -> bool {
        let read = self.client.read_volume(&self.volume).await;
        let read = read.expect("the read succeeds").expect("the volume exists");
        read.value.claiming_allocs().any(|id| id == alloc)
    }

    async fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let directory = tempfile::tempdir().expect("a directory");
        let kill = CancellationToken::new();
        let ran = run_client(&self.address, directory.path(), args, &kill).await;
        (ran.code, ran.output)
    }

    /// Every way to drop the claim is refused, and no remedy of the doctor names one.
    async fn keeps_its_claim(&self, alloc: &AllocId) {
        assert!(self.is_claimed_by(alloc).await);
        let id = self.volume.id.as_str();
        let approval = format!("cuts-off:{alloc}");
        let forced = ["volume", "deregister", id, "--force", "--yes"];
        for args in [
            forced.to_vec(),
            [&forced[..], &["--approve", &approval]].concat(),
            vec!["volume", "deregister", id, "--yes"],
        ] {
            let (code, output) = self.run(&args).await;
            assert_eq!(code, Some(3), "{args:?}: {output}");
            assert!(output.contains(alloc.as_str()), "{output}");
            assert!(self.is_claimed_by(alloc).await, "{args:?}: {output}");
        }
        let (_, output) = self.run(&["volume", "doctor", id]).await;
        assert!(!output.contains("deregister"), "{output}");
        assert!(!output.contains("has ended"), "{output}");
    }
}

#[tokio::test]
#[ignore = "needs a server with a writer that ignores its stop: NOMAD_ADDR, NOMAD_CSI_TEST_WRITER"]
async fn real_a_stopping_writer_keeps_its_claim() {
    let writer = Writer::named_by("NOMAD_CSI_TEST_WRITER");
    let running = writer.allocation("run", "running").await;
    let stopped = writer.client.stop_job(&writer.job, false).await;
    stopped.expect("the job is stopped");
    let stopping = writer.allocation("stop", "running").await;
    assert_eq!(running, stopping);
    writer.keeps_its_claim(&stopping).await;
}

#[tokio::test]
#[ignore = "needs a server with a writer whose client was killed: NOMAD_ADDR, NOMAD_CSI_TEST_LOST_WRITER"]
async fn real_a_lost_writer_keeps_its_claim() {
    let writer = Writer::named_by("NOMAD_CSI_TEST_LOST_WRITER");
    let lost = writer.allocation("stop", "lost").await;
    writer.keeps_its_claim(&lost).await;
    let (_, output) = writer.run(&["volume", "doctor", writer.volume.id.as_str()]).await;
    assert!(output.contains("may still write"), "{output}");
}
