// SPDX-License-Identifier: BSD-3-Clause
//! Finds the distribution's DPDK with pkg-config, generates the bindings of `src/bindings.h` and
//! compiles the C files of `src`.
//!
//! Assumes Linux. The bindings hold only what the lists below name; anything else of DPDK does
//! not exist for this crate. Nothing generated is ever committed.

use bindgen::callbacks::{EnumVariantValue, ParseCallbacks};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// DPDK's functions that this crate calls. Static inlines are reached through `shim_*` instead.
const FUNCTIONS: &[&str] = &[
    "rte_dev_event_callback_register",
    "rte_dev_event_callback_unregister",
    "rte_dev_name",
    "rte_dev_probe",
    "rte_dev_remove",
    "rte_eal_get_lcore_state",
    "rte_eal_get_runtime_dir",
    "rte_eal_remote_launch",
    "rte_eal_wait_lcore",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_dev_callback_register",
    "rte_eth_dev_callback_unregister",
    "rte_eth_dev_close",
    "rte_eth_dev_configure",
    "rte_eth_dev_fw_version_get",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_info_get",
    "rte_eth_dev_owner_new",
    "rte_eth_dev_owner_set",
    "rte_eth_dev_reset",
    "rte_eth_dev_rss_hash_conf_get",
    "rte_eth_dev_rss_reta_query",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_find_next_of",
    "rte_eth_from_rings",
    "rte_eth_iterator_cleanup",
    "rte_eth_iterator_init",
    "rte_eth_iterator_next",
    "rte_eth_macaddr_get",
    "rte_eth_promiscuous_disable",
    "rte_eth_promiscuous_enable",
    "rte_eth_read_clock",
    "rte_eth_rx_metadata_negotiate",
    "rte_eth_rx_queue_setup",
    "rte_eth_stats_get",
    "rte_eth_tx_queue_setup",
    "rte_eth_xstats_get_by_id",
    "rte_eth_xstats_get_id_by_name",
    "rte_flow_action_handle_create",
    "rte_flow_action_handle_destroy",
    "rte_flow_action_handle_query",
    "rte_flow_action_handle_update",
    "rte_flow_actions_template_create",
    "rte_flow_actions_template_destroy",
    "rte_flow_async_create",
    "rte_flow_async_destroy",
    "rte_flow_configure",
    "rte_flow_create",
    "rte_flow_destroy",
    "rte_flow_dev_dump",
    "rte_flow_flush",
    "rte_flow_get_aged_flows",
    "rte_flow_info_get",
    "rte_flow_isolate",
    "rte_flow_pattern_template_create",
    "rte_flow_pattern_template_destroy",
    "rte_flow_pull",
    "rte_flow_push",
    "rte_flow_query",
    "rte_flow_template_table_create",
    "rte_flow_template_table_destroy",
    "rte_flow_validate",
    "rte_get_tsc_hz",
    "rte_log_cur_msg_loglevel",
    "rte_mbuf_dyn_tx_timestamp_register",
    "rte_mempool_in_use_count",
    "rte_pktmbuf_free_bulk",
    "rte_pktmbuf_pool_create",
    "rte_ring_create",
    "rte_ring_free",
    "rte_strerror",
    "rte_vdev_init",
    "rte_version",
    "shim_.*",
    // Of the C library, for what writes to a stream.
    "fclose",
    "free",
    "open_memstream",
];

/// Types that no function above names: what the untyped pointers of flow rules point to.
const TYPES: &[&str] = &[
    "rte_flow_action_(age|count|ethdev|jump|mark|port_id|queue|rss)",
    "rte_flow_item_(eth|ipv6|vlan)",
    // Those of the tests, which compare the lists of other items and actions with them.
    "rte_flow_action_(conntrack|modify_field|raw_encap|sample|set_meta|set_tag|vf|vxlan_encap)",
    "rte_flow_item_(ah|e_tag|ecpri|geneve|gre_opt|gtp|icmp6_nd_ns|integrity)",
    "rte_flow_item_(l2tpv2|mpls|nvgre|pfcp|pppoe|raw|tag|vxlan_gpe)",
    "rte_flow_modify_conntrack",
    "rte_flow_query_(age|count)",
    "rte_flow_update_age",
];

/// Constants, mostly those that `bindings.h` works out.
const CONSTANTS: &[&str] = &["BIND_.*", "RTE_MAX_ETHPORTS", "RTE_PKTMBUF_HEADROOM"];

/// What Rust cannot say.
const SHIMS: [&str; 5] =
    ["src/shim.c", "src/flow.c", "src/grace.c", "src/linux.c", "src/privileges.c"];

/// Types whose layout differs between DPDK versions or does not matter: pointers to them only.
const OPAQUE: &[&str] =
    &["_IO_FILE", "rte_device", "rte_eth_(dcb|vmdq).*", "rte_mbuf", "rte_mempool", "rte_ring"];

fn main() {
    for input in ["build.rs", "src/bindings.h"].iter().chain(&SHIMS) {
        println!("cargo:rerun-if-changed={input}");
    }
    let cflags = pkg_config(&["--cflags"]);
    compile_shim(&cflags);
    generate_bindings(&cflags);
    link();
}

/// Output of `pkg-config ARGS libdpdk`, split into words.
fn pkg_config(args: &[&str]) -> Vec<String> {
    let output = Command::new("pkg-config").args(args).arg("libdpdk >= 22.11").output();
    match output {
        Ok(output) if output.status.success() => {
            let words = String::from_utf8_lossy(&output.stdout);
            words.split_whitespace().map(str::to_owned).collect()
        }
        Ok(output) => fail(
            "DPDK 22.11 or newer was not found (pkg-config libdpdk)",
            "apt-get install libdpdk-dev",
            &String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => {
            fail("pkg-config could not be run", "apt-get install pkg-config", &error.to_string())
        }
    }
}

fn compile_shim(cflags: &[String]) {
    cc::Build::new().files(SHIMS).flags(cflags).warnings(false).compile("dpdk_shim");
}

/// Notes the numbers that the installed DPDK has for items and actions of flow rules.
#[derive(Debug, Default)]
struct FlowNumbers {
    items: Arc<Mutex<BTreeMap<String, i64>>>,
    actions: Arc<Mutex<BTreeMap<String, i64>>>,
}

impl ParseCallbacks for FlowNumbers {
    fn enum_variant_name(
        &self,
        _of: Option<&str>,
        name: &str,
        value: EnumVariantValue,
    ) -> Option<String> {
        let number = match value {
            EnumVariantValue::Signed(number) => number,
            EnumVariantValue::Unsigned(number) => i64::try_from(number).ok()?,
            EnumVariantValue::Boolean(_) => return None,
        };
        let lists =
            [("RTE_FLOW_ITEM_TYPE_", &self.items), ("RTE_FLOW_ACTION_TYPE_", &self.actions)];
        for (prefix, list) in lists {
            if let Some(rest) = name.strip_prefix(prefix) {
                list.lock().expect("no panic before").insert(rest.to_owned(), number);
            }
        }
        None
    }
}

/// Writes the numbers as tables of Rust: newer releases of DPDK have more of them.
fn write_numbers(items: &BTreeMap<String, i64>, actions: &BTreeMap<String, i64>, path: &Path) {
    let table = |name: &str, numbers: &BTreeMap<String, i64>| {
        let numbers: Vec<_> = numbers.iter().collect();
        format!("pub(super) const {name}: &[(&str, u32)] = &{numbers:?};\n")
    };
    let text = table("ITEMS", items) + &table("ACTIONS", actions);
    std::fs::write(path, text).expect("OUT_DIR is writable");
}

fn generate_bindings(cflags: &[String]) {
    let numbers = FlowNumbers::default();
    let (items, actions) = (Arc::clone(&numbers.items), Arc::clone(&numbers.actions));
    let mut builder = bindgen::builder()
        .header("src/bindings.h")
        .parse_callbacks(Box::new(numbers))
        .clang_args(cflags)
        .rust_target(bindgen::RustTarget::stable(85, 0).expect("1.85 is known to bindgen"))
        .rust_edition(bindgen::RustEdition::Edition2024)
        .layout_tests(false)
        .generate_comments(false)
        .merge_extern_blocks(true)
        .derive_debug(false);
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in TYPES {
        builder = builder.allowlist_type(name);
    }
    for name in CONSTANTS {
        builder = builder.allowlist_var(name);
    }
    for name in OPAQUE {
        builder = builder.opaque_type(name);
    }
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    write_bindings(builder, &out_dir.join("bindings.rs"));
    let [items, actions] = [items, actions].map(|list| list.lock().expect("no panic").clone());
    write_numbers(&items, &actions, &out_dir.join("flow_numbers.rs"));
}

/// bindgen panics where libclang is missing; either failure becomes one message with the way out.
fn write_bindings(builder: bindgen::Builder, path: &Path) {
    const WAY_OUT: &str = "apt-get install libclang-dev clang";
    std::panic::set_hook(Box::new(|_| ()));
    let generated = std::panic::catch_unwind(AssertUnwindSafe(|| builder.generate()));
    let _ = std::panic::take_hook();
    match generated {
        Ok(Ok(bindings)) => bindings.write_to_file(path).expect("OUT_DIR is writable"),
        Ok(Err(error)) => {
            fail("libclang could not read src/bindings.h", WAY_OUT, &error.to_string())
        }
        Err(panic) => {
            let reason = panic.downcast_ref::<String>().map_or("", String::as_str);
            fail("libclang could not be loaded", WAY_OUT, reason)
        }
    }
}

/// Everything pkg-config lists is offered; rustc links with `--as-needed`, so only what is used
/// stays. Drivers are plug-ins that EAL loads; `net_ring` and their bus are also called directly.
fn link() {
    for word in pkg_config(&["--libs"]) {
        if let Some(directory) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={directory}");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
    println!("cargo:rustc-link-lib=dylib=rte_net_ring");
    println!("cargo:rustc-link-lib=dylib=rte_bus_vdev");
}

fn fail(what: &str, way_out: &str, detail: &str) -> ! {
    eprintln!("error: {what}\n  on Debian: {way_out}\n  {}", detail.trim());
    std::process::exit(1)
}
