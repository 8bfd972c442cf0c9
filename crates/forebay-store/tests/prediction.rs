//! Compares predictions from the first logs of a load with the outcome, on models of four disks.

use forebay_core::Nanos;
use forebay_store::{Config, Keys, Load, predict, simulate};

#[test]
fn the_predicted_rate_comes_true_within_a_tenth() {
    let model = forebay_devices::open("st1000nm0011:plain").unwrap().model;
    let disks = vec![model; 4];
    // From 10 KB, the disks are saturated: transformations take longer than permitted, and the
    // prediction must say so.
    for (value_bytes, total_mb, off_max, keeps_up) in
        [(1000, 100, 0.1, true), (10_000, 300, 0.1, false), (100_000, 600, 0.1, false)]
    {
        let load = Load {
            value_bytes,
            total_bytes: total_mb * 1_000_000,
            writers: 16,
            host: Nanos::from_micros(100),
            keys: Keys::Random,
            seed: 1,
        };
        let config = Config { tunes: false, ..Config::default() };
        let predicted = predict(&disks, &config, load).unwrap();
        let came = simulate(disks.clone(), None, config, load).unwrap();
        let rate = came.figures.put_bytes as f64 / came.execution.as_secs_f64() / 1e6;
        let off = predicted.throughput_mb_per_s / rate - 1.0;
        println!("{value_bytes} bytes: {predicted:.2?}; came to {rate:.2} MB/s, {off:.3} off");
        assert!(off.abs() < off_max, "{predicted:?} for {rate} MB/s");
        assert_eq!(predicted.keeps_up(), keeps_up, "{predicted:?}");
    }
}
