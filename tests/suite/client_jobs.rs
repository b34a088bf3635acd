//! Requests about jobs and logs, and how the client reads their responses.

use nomad_csi_client::nomad::{ClientSettings, NomadClient};
use nomad_csi_client::ports::{AllocationApi as _, JobApi as _, LogReader, LogRequest};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, Job, JobId, Namespace};
use nomad_csi_ports::LogStream;
use nomad_csi_wire::job_to_wire;

use crate::support::http_server::{Server, json, response};

fn log_of(task: &str) -> LogRequest {
    LogRequest {
        alloc: AllocId::new("3761b601-1111-2222-3333-444455556666"),
        task: task.to_owned(),
        stream: LogStream::Stdout,
        follows: false,
        from_end: None,
    }
}

async fn whole(log: &mut dyn LogReader) -> String {
    let mut text = vec![];
    while let Some(piece) = log.next_piece().await.expect("the log is readable") {
        text.extend(piece);
    }
    String::from_utf8(text).expect("UTF-8")
}

#[tokio::test]
async fn a_job_is_validated_without_the_default_region() {
    let server = Server::start(|_, _| {
        json(r#"{"DriverConfigValidated":true,"ValidationErrors":["a"],"Error":"1 error occurred","Warnings":""}"#)
    })
    .await;
    let job = job_to_wire(&Job::new(Namespace::new("prod"), JobId::new("web")));
    let answer = server.client().validate_job(&job).await;
    let answer = answer.expect("an invalid job is no error of the request");
    assert_eq!(answer.validation_errors, Some(vec!["a".to_owned()]));
    let requests = server.requests();
    let sent = requests.first().expect("a request");
    assert_eq!(sent.line(), "PUT /v1/validate/job?namespace=prod");
    assert!(sent.body.contains(r#""Region":"""#), "{}", sent.body);
}

#[tokio::test]
async fn a_log_is_longer_than_the_limit_of_other_responses() {
    let frame = r#"{"Data":"b3V0IDExMgo=","File":"alloc/logs/w.stdout.0","Offset":788}{}"#;
    let body = frame.repeat(5000);
    let server =
        Server::start(move |_, _| response(200, "application/json", &[], body.as_bytes())).await;
    let mut settings = ClientSettings::new(server.url());
    settings.limits.response_bytes = 1 << 10;
    let client = NomadClient::new(&settings).expect("valid settings");
    let mut log = client.open_log(&log_of("w")).await.expect("the log opens");
    assert_eq!(whole(&mut *log).await, "out 112\n".repeat(5000));
}

#[tokio::test]
async fn a_log_that_the_server_refuses_is_an_error_with_a_code() {
    let server =
        Server::start(|_, _| response(400, "text/plain", &[], b"unknown task name \"nosuch\""))
            .await;
    let refused = server.client().open_log(&log_of("nosuch")).await;
    let error = refused.err().expect("the server refuses");
    assert_eq!((error.code, error.status), (Code::AllocTask, Some(400)));
}
