//! Benchmarks reading and validating 10,000 volumes in each syntax, in one file and in 10,000
//! files, and generating them.
//!
//! The goal is less than 0.3 s and 100 MB; for 10,000 generated volumes less than 0.15 s and 60 MB, for 10,000 blocks with seven
//! expressions each less than 0.4 s and 100 MB, for 100,000 generated volumes less than 2 s and 400 MB.
//! `cargo bench --bench specs` prints times and allocations.

use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_spec::{self as spec, Defaults, Purpose, Syntax};

#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

const VOLUMES: usize = 10_000;

fn main() {
    divan::main();
}

/// Returns the fields of one volume with an indentation.
fn hcl_fields(at: usize, indent: &str) -> String {
    format!(
        r#"{indent}type         = "csi"
{indent}name         = "database-{at}"
{indent}plugin_id    = "hostpath"
{indent}capacity_min = "10GiB"
{indent}capacity_max = "20GiB"
{indent}capability {{
{indent}  access_mode     = "single-node-writer"
{indent}  attachment_mode = "file-system"
{indent}}}
{indent}mount_options {{
{indent}  fs_type     = "ext4"
{indent}  mount_flags = ["noatime", "nodiratime"]
{indent}}}
{indent}topology_request {{
{indent}  required {{
{indent}    topology {{
{indent}      segments {{ zone = "eu-1a" }}
{indent}    }}
{indent}  }}
{indent}}}
{indent}secrets {{
{indent}  token = "placeholder-{at}"
{indent}}}
{indent}parameters {{
{indent}  type = "gp3"
{indent}}}
"#
    )
}

fn one_file(syntax: Syntax) -> String {
    let mut text = String::new();
    let volumes = |text: &mut String, line: fn(usize) -> String| {
        (0..VOLUMES).for_each(|at| text.push_str(&line(at)));
    };
    match syntax {
        Syntax::Hcl => {
            volumes(&mut text, |at| {
                format!("volume \"db-{at}\" {{\n{}}}\n\n", hcl_fields(at, "  "))
            });
        }
        Syntax::Yaml => {
            text.push_str("volume:\n");
            volumes(&mut text, |at| {
                format!(
                    "  db-{at}:
    type: csi
    name: database-{at}
    plugin_id: hostpath
    capacity_min: 10GiB
    capacity_max: 20GiB
    capability:
      - access_mode: single-node-writer
        attachment_mode: file-system
    mount_options:
      fs_type: ext4
      mount_flags: [noatime, nodiratime]
    topology_request:
      required:
        - segments: {{zone: eu-1a}}
    secrets:
      token: placeholder-{at}
    parameters:
      type: gp3
"
                )
            });
        }
        Syntax::Json => {
            text.push_str("{\"volume\": {\n");
            volumes(&mut text, |at| {
                let comma = if at + 1 < VOLUMES { "," } else { "" };
                format!(
                    r#"  "db-{at}": {{
    "type": "csi",
    "name": "database-{at}",
    "plugin_id": "hostpath",
    "capacity_min": "10GiB",
    "capacity_max": "20GiB",
    "capability": [{{"access_mode": "single-node-writer", "attachment_mode": "file-system"}}],
    "mount_options": {{"fs_type": "ext4", "mount_flags": ["noatime", "nodiratime"]}},
    "topology_request": {{"required": [{{"segments": {{"zone": "eu-1a"}}}}]}},
    "secrets": {{"token": "placeholder-{at}"}},
    "parameters": {{"type": "gp3"}}
  }}{comma}
"#
                )
            });
            text.push_str("}}\n");
        }
    }
    text
}

fn read_and_validate(texts: &[String], syntax: Syntax) -> usize {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let mut specs = vec![];
    for text in texts {
        let source = sources.add("bench", text.as_str());
        let defaults = Defaults::default();
        specs.extend(spec::parse(&mut sources, source, syntax, &defaults, &mut diagnostics));
    }
    spec::validate(&specs, Purpose::ByExternalId, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{:?}", diagnostics.iter().next());
    specs.len()
}

#[divan::bench(args = Syntax::ALL, sample_count = 10)]
fn one_file_of_10000_volumes(bencher: divan::Bencher<'_, '_>, syntax: Syntax) {
    let texts = [one_file(syntax)];
    bencher.bench(|| assert_eq!(read_and_validate(&texts, syntax), VOLUMES));
}

#[divan::bench(sample_count = 10)]
fn files_of_one_volume_each(bencher: divan::Bencher<'_, '_>) {
    let flat = |at| format!("id = \"db-{at}\"\n{}", hcl_fields(at, ""));
    let texts: Vec<String> = (0..VOLUMES).map(flat).collect();
    bencher.bench(|| assert_eq!(read_and_validate(&texts, Syntax::Hcl), VOLUMES));
}

/// Seven expressions, as a volume of several environments has them.
const EXPRESSIONS: &str = r#"
  type         = "csi"
  name         = "${var.env}-${volume.key}"
  plugin_id    = "ceph-${var.env}"
  capacity_min = "${local.sizes[var.env] * 2}GiB"
  protect      = var.env == "prod"
  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
  parameters = {
    pool  = element(local.pools, length(volume.key))
    owner = upper(format("%s-%s", var.env, volume.label))
  }
  topology_request = { required = [for zone in local.zones : { segments = { zone = zone } }] }
"#;

const DECLARATIONS: &str = r#"
variable "env" { default = "prod" }
locals {
  sizes = { dev = 1, prod = 10 }
  pools = ["hdd", "ssd", "nvme"]
  zones = ["eu-1a", "eu-1b"]
}
"#;

fn generate(text: &str) -> usize {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("bench", text);
    let files = [(source, Syntax::Hcl)];
    let (given, defaults) = (spec::GivenVariables::default(), Defaults::default());
    let parsed = spec::read(&mut sources, &files, &given, &defaults, &mut diagnostics);
    spec::validate(&parsed.volumes, Purpose::ByExternalId, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{:?}", diagnostics.iter().next());
    parsed.volumes.len()
}

#[divan::bench(args = [VOLUMES, 10 * VOLUMES], sample_count = 10)]
fn one_block_with_count(bencher: divan::Bencher<'_, '_>, volumes: usize) {
    let text = format!("{DECLARATIONS}volume \"db\" {{\n  count = {volumes}\n{EXPRESSIONS}}}\n");
    bencher.bench(|| assert_eq!(generate(&text), volumes));
}

#[divan::bench(sample_count = 10)]
fn one_block_with_for_each(bencher: divan::Bencher<'_, '_>) {
    let keys: String = (0..VOLUMES).map(|at| format!("k{at} = {at}, ")).collect();
    let text = format!(
        "{DECLARATIONS}locals {{\n  all = {{ {keys} }}\n}}\nvolume \"db\" {{\n  for_each = local.all\n  capacity_max = \"${{local.all[each.key] + 20}}GiB\"\n{EXPRESSIONS}}}\n"
    );
    bencher.bench(|| assert_eq!(generate(&text), VOLUMES));
}

#[divan::bench(sample_count = 10)]
fn blocks_with_seven_expressions(bencher: divan::Bencher<'_, '_>) {
    let block = |at| format!("volume \"db-{at}\" {{\n{EXPRESSIONS}}}\n");
    let text = format!("{DECLARATIONS}{}", (0..VOLUMES).map(block).collect::<String>());
    bencher.bench(|| assert_eq!(generate(&text), VOLUMES));
}
