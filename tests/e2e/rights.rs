//! Who may do what over the agent's addresses. Each test is an attack, or the way in that a refusal names.

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use rustix::process::Uid;
use serde_json::{Value, json};

use crate::agent_process::{AgentProcess, PROGRAM, operator_token, program, runtime_directory};
use crate::hostpath_fixture::run_in_namespace;
use crate::http::{Address, Answer};
use crate::job_machine::{Machine, WRITER, volume};
use crate::volumes::create;
use crate::wait::until_true;
use nomad_csi_testing::namespace::has_all_users;

/// A user that owns nothing here.
const STRANGER: u32 = 65_534;

/// Sockets of ended connections, which make the kernel's table long.
const ENDED_SOCKETS: usize = 6_000;
/// How often the attack is tried.
const ATTEMPTS: usize = 30;

/// Every route that only the operator may use, with another method where the route has two.
const OPERATOR_ROUTES: &[&str] = &[
    "PUT /v1/volumes",
    "POST /v1/volumes",
    "PUT /v1/volume/csi/db",
    "PUT /v1/volume/csi/x/create",
    "DELETE /v1/volume/csi/db",
    "DELETE /v1/volume/csi/db?force=true",
    "DELETE /v1/volume/csi/db/delete",
    "DELETE /v1/volume/csi/db/detach?node=x",
    "PUT /v1/volume/csi/db/claim",
    "POST /v1/volume/csi/db/claim",
    "DELETE /v1/volume/csi/db/claim",
    "PUT /v1/volumes/snapshot",
    "POST /v1/volumes/snapshot",
    "DELETE /v1/volumes/snapshot?plugin_id=hostpath&snapshot_id=x",
    "PUT /v1/jobs",
    "POST /v1/jobs",
    "PUT /v1/job/planted",
    "POST /v1/job/planted",
    "DELETE /v1/job/planted",
    "DELETE /v1/job/planted?purge=true",
    "PUT /v1/job/planted/plan",
    "PUT /v1/job/planted/evaluate",
    "PUT /v1/job/planted/placement",
    "PUT /v1/allocation/00000000-0000-0000-0000-000000000000/stop",
    "PUT /v1/job/planted/revert",
    "PUT /v1/client/allocation/00000000-0000-0000-0000-000000000000/restart",
    "PUT /v1/client/allocation/00000000-0000-0000-0000-000000000000/signal",
    "GET /v1/client/fs/ls/00000000-0000-0000-0000-000000000000?path=/",
    "GET /v1/client/fs/stat/00000000-0000-0000-0000-000000000000?path=/",
    "GET /v1/client/fs/cat/00000000-0000-0000-0000-000000000000?path=/",
    "GET /v1/client/fs/readat/00000000-0000-0000-0000-000000000000?path=/&offset=0&limit=1",
    "GET /v1/client/fs/logs/00000000-0000-0000-0000-000000000000?task=t&type=stdout",
    "PUT /v1/node/x/fence",
    "PUT /v1/node/x/unfence",
    "PUT /v1/node/x/eligibility",
    "PUT /v1/node/x/drain",
    "PUT /v1/system/gc",
    "PUT /v1/namespace",
    "POST /v1/namespace",
    "PUT /v1/namespace/planted",
    "DELETE /v1/namespace/planted",
    "GET /v1/vars",
    "GET /v1/vars?prefix=app",
    "GET /v1/var/app",
    "PUT /v1/var/app",
    "POST /v1/var/app",
    "PUT /v1/var/app?lock-acquire",
    "DELETE /v1/var/app",
];

/// Routes that everyone may read.
const OPEN_ROUTES: &[&str] = &[
    "GET /v1/volumes?type=csi",
    "GET /v1/volume/csi/db",
    "GET /v1/volume/csi/db/claims",
    "GET /v1/volumes/external?plugin_id=hostpath",
    "GET /v1/plugins?type=csi",
    "GET /v1/nodes",
    "GET /v1/jobs",
    "GET /v1/allocations",
    "GET /v1/evaluations",
    "GET /v1/namespaces",
    "GET /v1/agent/self",
    "GET /v1/agent/health",
    "GET /v1/status/leader",
    "GET /v1/metrics",
];

fn agent_at(http: &str, data: &Path, options: &[&str]) -> AgentProcess {
    let mut command = program(["agent", "--dev", "--http", http]);
    command.args(options).arg("--data-dir").arg(data);
    AgentProcess::run(command)
}

fn send(agent: &Address, line: &str, headers: &[&str], body: &str) -> Answer {
    let headers: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    agent.send(&[head.as_bytes(), body.as_bytes()]).unwrap()
}

fn assert_refused(answer: &Answer, about: &str) {
    assert_eq!(answer.status, 403, "{about}: {}", answer.text());
    let text = answer.text();
    assert!(text.contains("only the operator"), "{about}: {text}");
}

/// A job that would show that it ran, as root.
fn planted_job(id: &str, witness: &Path) -> Value {
    let script = format!("id > {}", witness.display());
    json!({"Job": {
        "ID": id, "Name": id, "Type": "batch",
        "TaskGroups": [{"Name": "g", "Tasks": [{
            "Name": "t", "Driver": "raw_exec", "User": "root",
            "Config": {"command": "/bin/sh", "args": ["-c", script]},
        }]}],
    }})
}

/// The job, as a request that tells its server to expect another one, which never comes.
fn pipelined(job: &Value) -> Vec<u8> {
    let body = job.to_string();
    let length = body.len();
    format!("PUT /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}GET /v1/jo")
        .into_bytes()
}

/// Runs on a thread whose sockets belong to a stranger, as those of another process would.
fn as_stranger<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let user = Uid::from_raw(STRANGER);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Leaves sockets of ended connections of this user in the kernel's table.
fn leave_ended_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..ENDED_SOCKETS {
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        drop(client);
        drop(server);
    }
}

/// The kernel lists a socket that its process has closed as one of root.
#[test]
fn a_stranger_whose_connection_is_closed_runs_no_job() {
    if !has_all_users() {
        eprintln!("SKIPPED: it needs another user, so root");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let agent = agent_at("127.0.0.1:0", &base.path().join("data"), &[]);
    let address = agent.address.tcp();
    as_stranger(|| {
        leave_ended_sockets();
        for attempt in 0..ATTEMPTS {
            let witness = base.path().join("witness");
            let job = planted_job(&format!("planted-{attempt}"), &witness);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&pipelined(&job)).unwrap();
            stream.shutdown(Shutdown::Write).ok();
        }
    });
    // A stop completes what was sent.
    assert!(agent.stop().success());
    let agent = agent_at("127.0.0.1:0", &base.path().join("data"), &[]);
    let planted = agent.address.ask("GET", "/v1/jobs?prefix=planted", None);
    let planted = planted.unwrap().json();
    assert_eq!(planted, json!([]), "the jobs of a stranger were accepted");
}

/// Who takes the address of a stopping agent receives what commands send there. A connection on which most of a request
/// has arrived is still served.
#[test]
fn a_token_that_was_received_during_the_stop_runs_no_job() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let mut agent = agent_at("127.0.0.1:0", &data, &[]);
    let address = agent.address.tcp();
    let token = operator_token(&data.to_string_lossy());
    let body = planted_job("planted", &base.path().join("witness")).to_string();
    let head =
        format!("PUT /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    let mut held = TcpStream::connect(address).unwrap();
    held.write_all(head.as_bytes()).unwrap();
    // Connections are accepted in their order.
    assert_eq!(agent.address.ask("GET", "/v1/jobs", None).unwrap().status, 200);
    agent.signal(rustix::process::Signal::TERM);
    until_true("the address is free", || TcpListener::bind(address).is_ok());
    let rest = format!("x-nomad-token: {token}\r\n\r\n{body}");
    held.write_all(rest.as_bytes()).ok();
    let mut answer = vec![];
    std::io::Read::read_to_end(&mut held, &mut answer).ok();
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains(" 200 "), "{answer}");
    assert!(agent.ended().success());
    let agent = agent_at("127.0.0.1:0", &data, &[]);
    let planted = agent.address.ask("GET", "/v1/jobs?prefix=planted", None);
    assert_eq!(planted.unwrap().json(), json!([]), "the job was accepted");
}

#[test]
fn a_client_at_another_address_runs_no_job() {
    run_in_network_namespace("rights::a_client_at_another_address_runs_no_job", || {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("data");
        let agent = agent_at("0.0.0.0:0", &data, &["--allow-unauthenticated"]);
        let port = agent.address.tcp().port();
        let own = OWN_ADDRESS.parse().unwrap();
        let job = planted_job("planted", &base.path().join("witness"));
        let anonymous = Address::without_token(SocketAddr::new(own, port));
        let answer = send(&anonymous, "PUT /v1/jobs", &[], &job.to_string());
        assert_refused(&answer, "a job");
        for line in OPERATOR_ROUTES {
            assert_refused(&send(&anonymous, line, &[], "{}"), line);
        }
        let jobs = send(&anonymous, "GET /v1/jobs", &[], "").json();
        let ids: Vec<_> = jobs.as_array().unwrap().iter().map(|job| &job["ID"]).collect();
        assert_eq!(ids, ["nomad-csi-hostpath"], "only what the agent runs by itself");
        let token = operator_token(&data.to_string_lossy());
        let known = Address::Tcp(SocketAddr::new(own, port), Some(token));
        create(&known, "db").unwrap().json();
    });
}

/// An address that is not loopback, of a network that only the test has.
const OWN_ADDRESS: &str = "192.0.2.7";

/// Runs the body of a test in a second process, in a network namespace of its own with [`OWN_ADDRESS`].
fn run_in_network_namespace(test: &str, body: impl FnOnce()) {
    const INSIDE: &str = "NOMAD_CSI_TEST_NETWORK";
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let script =
        format!("ip link set lo up && ip address add {OWN_ADDRESS}/32 dev lo && exec \"$@\"");
    let unshare = |program: &Path| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--net", "sh", "-c", &script, "sh"]).arg(program);
        command
    };
    if !unshare(Path::new("true")).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED {test}: it needs a network namespace and `ip`");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output = unshare(&program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{problems}");
}

/// Root in a task is not the operator, and finds no token.
#[test]
fn a_task_that_is_root_only_reads() {
    let test = "rights::a_task_that_is_root_only_reads";
    if !Path::new("/bin/bash").exists() {
        eprintln!("SKIPPED {test}: it needs bash, which can open a TCP connection");
        return;
    }
    run_in_namespace(test, async {
        let options = ["--host-volume", "all=/:ro", "--allow-root-tasks"];
        let machine = Machine::with_options(options);
        machine.create_volume("data", WRITER, "file-system");
        let port = machine.address().tcp().port();
        let witness = machine.directory.path().join("witness");
        let body = planted_job("planted", &witness).to_string();
        let length = body.len();
        let token = operator_token(&machine.data().to_string_lossy());
        let half = &token[..32];
        let script = format!(
            "id -u; exec 3<>/dev/tcp/127.0.0.1/{port}; \
             printf 'PUT /v1/jobs HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\ncontent-length: {length}\\r\\n\\r\\n' >&3; \
             printf '%s' '{body}' >&3; cat <&3 | head -1; \
             ls {} /run/nomad-csi 2>&1 | grep -c 'No such\\|cannot'; \
             cat /host{}/operator.token /host{}/nomad-csi/* 2>/dev/null | wc -c; \
             env | grep -c {half}; cat /proc/*/environ 2>/dev/null | grep -c {half}; true",
            machine.data().display(),
            machine.data().display(),
            runtime_directory().display(),
        );
        let mut job = machine.job("attack", "batch", &volume("data", WRITER), &script);
        let everything = json!({"Type": "host", "Source": "all", "ReadOnly": true});
        let below = json!({"Volume": "h", "Destination": "/host", "ReadOnly": true});
        job["TaskGroups"][0]["Volumes"]["h"] = everything;
        let mounts = &mut job["TaskGroups"][0]["Tasks"][0]["VolumeMounts"];
        mounts.as_array_mut().unwrap().push(below);
        job["TaskGroups"][0]["Tasks"][0]["User"] = json!("root");
        let config = json!({"command": "/bin/bash", "args": ["-c", script, machine.marker()]});
        job["TaskGroups"][0]["Tasks"][0]["Config"] = config;
        machine.run(&job);
        until_true("the task to end", || {
            let allocs = machine.allocs("attack");
            allocs.iter().any(|alloc| {
                ["complete", "failed"].contains(&alloc["ClientStatus"].as_str().unwrap())
            })
        });
        let alloc = machine.allocs("attack").remove(0);
        let output = machine.output(&alloc);
        let lines: Vec<&str> = output.lines().collect();
        let refused = "HTTP/1.1 403 Forbidden";
        assert_eq!(lines, ["0", refused, "2", "0", "0", "0"], "{output}");
        assert_eq!(machine.get("/v1/jobs?prefix=planted"), json!([]));
        assert!(!witness.exists());
        machine.end();
    });
}

#[test]
fn only_the_token_opens_the_routes_of_the_operator() {
    for http in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("data");
        let agent = agent_at(http, &data, &[]);
        create(&agent.address, "db").unwrap().json();
        let anonymous = Address::without_token(agent.address.tcp());
        for line in OPERATOR_ROUTES {
            let answer = send(&anonymous, line, &[], "{}");
            assert_refused(&answer, &format!("{http} {line}"));
            let answer = send(&agent.address, line, &[], "{}");
            assert_ne!(answer.status, 403, "{http} {line}: {}", answer.text());
            if line.contains("/db") {
                create(&agent.address, "db").unwrap().json();
            }
        }
        for line in OPEN_ROUTES {
            let answer = send(&anonymous, line, &[], "");
            assert_eq!(answer.status, 200, "{http} {line}: {}", answer.text());
            // The method of a write does not make another route of it.
            let path = line.strip_prefix("GET ").unwrap();
            for method in ["DELETE", "PATCH", "HEAD"] {
                let other = format!("{method} {path}");
                let answer = send(&anonymous, &other, &["x-http-method-override: GET"], "");
                let refused = [403, 404, 405].contains(&answer.status);
                assert!(refused, "{http} {other}: {}", answer.status);
            }
        }
        assert!(agent.stop().success());
    }
}

#[test]
fn nothing_but_the_whole_token_of_this_agent_is_accepted() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let agent = agent_at("127.0.0.1:0", &data, &[]);
    let earlier = operator_token(&data.to_string_lossy());
    assert!(agent.stop().success());
    let agent = agent_at("127.0.0.1:0", &data, &[]);
    let token = operator_token(&data.to_string_lossy());
    let anonymous = Address::without_token(agent.address.tcp());
    let namespace = json!({"Name": "planted"}).to_string();
    let attempt = |line: &str, headers: &[&str]| send(&anonymous, line, headers, &namespace);
    let line = "PUT /v1/namespace";
    let upper = token.to_uppercase();
    for header in [
        "x-nomad-token:".to_owned(),
        "x-nomad-token:   ".to_owned(),
        format!("x-nomad-token: {earlier}"),
        format!("x-nomad-token: {upper}"),
        format!("x-nomad-token: {}", &token[1..]),
        format!("x-nomad-token: {token}{token}"),
        format!("x-nomad-token: {} {}", &token[..8], &token[8..]),
        format!("x-nomad-token: Bearer {token}"),
        format!("x-nomad-token: \"{token}\""),
        format!("authorization: {token}"),
        format!("authorization: Basic {token}"),
        format!("cookie: X-Nomad-Token={token}"),
        format!("x-nomad-token: {token}\r\nx-nomad-token: {token}"),
        format!("x-nomad-token: {token}\r\nx-nomad-token: {earlier}"),
        format!("x-nomad-token: {token}\r\nauthorization: Bearer {earlier}"),
    ] {
        assert_refused(&attempt(line, &[&header]), &header);
    }
    for query in [
        format!("?token={token}"),
        format!("?X-Nomad-Token={token}"),
        format!("?secret_id={token}&_method=GET"),
    ] {
        assert_refused(&attempt(&format!("{line}{query}"), &[]), &query);
    }
    let shown = format!("x-nomad-token: {token}");
    let page = attempt(line, &[&shown, "origin: http://evil.example"]);
    assert_eq!(page.status, 403);
    assert!(page.text().contains("--allow-host"), "{}", page.text());
    let known = anonymous.ask("GET", "/v1/namespace/planted", None).unwrap();
    assert_eq!(known.status, 404, "{}", known.text());

    let search = json!({"Prefix": "", "Context": "all"}).to_string();
    let found = send(&anonymous, "POST /v1/search", &[], &search).json();
    assert_eq!(found["Matches"].get("vars"), None, "{found}");
    let search = json!({"Prefix": "", "Context": "vars"}).to_string();
    assert_refused(&send(&anonymous, "POST /v1/search", &[], &search), "vars");

    for accepted in [format!("X-NOMAD-TOKEN:  {token}  "), format!("authorization: Bearer {token}")]
    {
        assert_eq!(attempt(line, &[&accepted]).status, 200, "{accepted}");
    }
    let log = agent.log().join("\n");
    assert!(!log.contains(&token) && !log.contains(&earlier));
}

/// Returns what a command of the program writes and how it ends. It finds no token by itself.
fn run_without_token(command: &mut Command) -> (bool, String) {
    let output = command.env_remove("XDG_RUNTIME_DIR").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

/// The refusal names two ways in, which work as they are written, also for a directory with spaces.
#[test]
fn the_ways_that_a_refusal_names_work() {
    for name in ["data", "it's \"my\" $HOME"] {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join(name);
        let agent = agent_at("127.0.0.1:0", &data, &[]);
        let address = format!("http://{}", agent.address.tcp());
        let mut command = program(["namespace", "create", "refused", "--address", &address]);
        let (succeeded, text) = run_without_token(&mut command);
        assert!(!succeeded && text.contains("api/operator-only"), "{text}");
        let help = text.split("= help: ").nth(1).unwrap();
        let (_, ways) = help.lines().next().unwrap().split_once(" set ").unwrap();
        let ways: Vec<&str> = ways.trim().split(" or ").collect();
        assert_eq!(ways.len(), 2, "{text}");
        assert!(ways[0].starts_with("NOMAD_TOKEN=$(cat "), "{text}");
        assert!(ways[1].starts_with("NOMAD_ADDR="), "{text}");
        for (at, way) in ways.iter().enumerate() {
            let line = format!("{way} \"$0\" namespace create way-{at}");
            let mut shell = Command::new("/bin/sh");
            shell.env_clear().args(["-c", &line, PROGRAM]);
            shell.env("PATH", "/usr/bin:/bin").env("NOMAD_ADDR", &address);
            let (succeeded, text) = run_without_token(&mut shell);
            assert!(succeeded, "{line}: {text}");
        }
        let found = agent.address.ask("GET", "/v1/namespaces", None).unwrap();
        assert!(found.text().contains("way-0") && found.text().contains("way-1"));
    }
}

/// The lines that README and documentation give to Nomad's clients.
const DOCUMENTED: [&str; 2] = [
    "export NOMAD_TOKEN=$(cat agent-data/operator.token)",
    "export NOMAD_ADDR=unix://$PWD/agent-data/run/agent.sock",
];

#[test]
fn the_documented_lines_admit_the_operator() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for document in ["README.md", "agent.md", "jobs.md", "security.md", "access.md"] {
        let folder = if document == "README.md" { "." } else { "docs" };
        let text = std::fs::read_to_string(root.join(folder).join(document)).unwrap();
        for line in DOCUMENTED {
            assert!(text.contains(line), "{document}: {line}");
        }
    }
    let base = tempfile::tempdir().unwrap();
    let agent = agent_at("127.0.0.1:0", &base.path().join("agent-data"), &[]);
    let address = format!("http://{}", agent.address.tcp());
    for (at, line) in DOCUMENTED.iter().enumerate() {
        let script = format!("{line}; exec \"$0\" namespace create way-{at}");
        let mut shell = Command::new("/bin/sh");
        shell.env_clear().args(["-c", &script, PROGRAM]);
        shell.current_dir(base.path()).env("PATH", "/usr/bin:/bin");
        shell.env("NOMAD_ADDR", &address);
        let (succeeded, text) = run_without_token(&mut shell);
        assert!(succeeded, "{line}: {text}");
    }
}

/// The command line finds the token of an agent that lives, and sends it to no other address.
#[test]
fn a_command_finds_the_token_by_the_address() {
    let base = tempfile::tempdir().unwrap();
    let runtime = base.path().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    for (http, hosts) in [
        ("127.0.0.1:0", &["127.0.0.1", "localhost"][..]),
        ("[::1]:0", &["[::1]", "localhost"]),
        ("0.0.0.0:0", &["127.0.0.1", "127.3.2.1", "localhost"]),
        ("[::]:0", &["127.0.0.1", "[::1]", "localhost"]),
    ] {
        let mut command = program(["agent", "--dev", "--allow-unauthenticated", "--http", http]);
        command.arg("--data-dir").arg(base.path().join("data"));
        command.env("XDG_RUNTIME_DIR", &runtime);
        let agent = AgentProcess::run(command);
        let port = agent.address.tcp().port();
        for (at, host) in hosts.iter().enumerate() {
            let address = format!("http://{host}:{port}");
            let id = format!("found-{at}");
            let mut command = program(["namespace", "create", &id, "--address", &address]);
            let output = command.env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{http} {host}: {text}");
        }
        assert!(agent.stop().success());
        let left = std::fs::read_dir(runtime.join("nomad-csi")).unwrap();
        assert_eq!(left.count(), 0, "the token of an agent that ended");
    }
}

/// The socket admits its user, but not from namespaces such as those of a task.
#[test]
fn a_process_in_other_namespaces_is_not_the_operator_on_the_socket() {
    let test = "rights::a_process_in_other_namespaces_is_not_the_operator_on_the_socket";
    run_in_namespace(test, async {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("data");
        let agent = agent_at("127.0.0.1:0", &data, &[]);
        let address = format!("unix://{}", agent.socket.display());
        let own = Address::Unix(agent.socket.clone());
        create(&own, "db").unwrap().json();
        let token = operator_token(&data.to_string_lossy());
        for (at, kind) in [&["--mount"][..], &["--pid", "--fork"]].iter().enumerate() {
            let run = |token: Option<&str>| {
                let mut command = Command::new("unshare");
                command.env_clear().args(*kind).arg(PROGRAM);
                command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
                command.env("NOMAD_ADDR", &address);
                command.envs(token.map(|token| ("NOMAD_TOKEN", token)));
                command.args(["namespace", "create", &format!("planted-{at}")]);
                let output = command.output().unwrap();
                let text = String::from_utf8(output.stderr).unwrap();
                (output.status.success(), text)
            };
            let (succeeded, text) = run(None);
            assert!(!succeeded, "{kind:?}");
            assert!(text.contains("other namespaces than the agent"), "{text}");
            let (succeeded, text) = run(Some(&token));
            assert!(succeeded, "{kind:?}: {text}");
        }
    });
}
