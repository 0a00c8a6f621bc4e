//! The metrics at `/metrics`, as OpenMetrics text, with the meanings of vLLM's metrics of the same names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use verdigris::schedule::Statistics;

/// The bucket bounds of durations, in seconds.
const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    route: String,
    status: u16,
}

/// The name and the value of the only label of a counter.
type Label = [(&'static str, &'static str); 1];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfName {
    model: String,
}

/// The counters and histograms of the server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    marks: Family<Label, Counter>,
    manifests: Family<Label, Counter>,
    finished: Family<Label, Counter>,
    rejected: Family<Label, Counter>,
    broken: Family<Label, Counter>,
    loads: Family<OfName, Counter>,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    queue: Histogram,
    prefill: Histogram,
    first_token: Histogram,
    between_pieces: Histogram,
    per_token: Histogram,
    writing: Histogram,
    whole: Histogram,
    of_model: OfModel,
}

/// Statistics of the models' loops, which are read when `/metrics` is requested.
#[derive(Default)]
struct OfModel {
    loaded: Gauge,
    running: Gauge,
    waiting: Gauge,
    page_use: Gauge<f64, AtomicU64>,
    prefix_queries: Counter,
    prefix_hits: Counter,
    prefix_restored: Counter,
    preempted: Counter,
    passes: Counter,
    read: Counter,
    drafted: Counter,
    accepted: Counter,
}

impl OfModel {
    fn register(&self, registry: &mut Registry) {
        registry.register("models_loaded", "Models in memory", self.loaded.clone());
        registry.register("num_requests_running", "Texts that are being written", self.running.clone());
        registry.register("num_requests_waiting", "Texts that wait for memory or their turn", self.waiting.clone());
        registry.register("kv_cache_usage_perc", "Share of the pages in use, from 0 to 1", self.page_use.clone());
        let queries = self.prefix_queries.clone();
        registry.register("prefix_cache_queries", "Tokens of prompts looked up in the prefix cache", queries);
        registry.register("prefix_cache_hits", "Tokens of prompts found in the prefix cache", self.prefix_hits.clone());
        let restored = self.prefix_restored.clone();
        registry.register("prefix_store_restored", "Tokens taken from the prefix store, not read", restored);
        registry.register("num_preemptions", "Texts that lost their memory to older ones", self.preempted.clone());
        registry.register("model_passes", "Calls of the model", self.passes.clone());
        registry.register("model_tokens", "Tokens that the model read, drafts included", self.read.clone());
        registry.register("spec_decode_num_draft_tokens", "Tokens drafted", self.drafted.clone());
        registry.register("spec_decode_num_accepted_tokens", "Drafted tokens accepted", self.accepted.clone());
    }

    fn set(&self, loaded: usize, now: &Statistics) {
        let Statistics { counts, .. } = now;
        self.loaded.set(loaded as i64);
        self.running.set(counts.running as i64);
        self.waiting.set(counts.waiting as i64);
        self.page_use.set(counts.pages_used as f64 / counts.pages.max(1) as f64);
        for (counter, count) in [
            (&self.prefix_queries, counts.asked_tokens),
            (&self.prefix_hits, counts.shared_tokens),
            (&self.prefix_restored, now.restored),
            (&self.preempted, counts.preempted),
            (&self.passes, now.passes),
            (&self.read, now.read),
            (&self.drafted, now.drafted),
            (&self.accepted, now.accepted),
        ] {
            // The loop reports totals, and a concurrent request must not lower them.
            counter.inner().fetch_max(count as u64, Ordering::Relaxed);
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let times = || Histogram::new(SECONDS);
        let (first_token, between_pieces, whole) = (times(), times(), times());
        let (queue, prefill, per_token, writing) = (times(), times(), times(), times());
        let (requests, marks, finished, rejected) =
            (Family::default(), Family::default(), Family::default(), Family::default());
        let broken = Family::default();
        let (manifests, loads) = (Family::default(), Family::default());
        let (prompt_tokens, generation_tokens) = (Counter::default(), Counter::default());
        let of_model = OfModel::default();
        let mut registry = Registry::with_prefix("verdigris");
        registry.register("requests", "Requests by route and status", requests.clone());
        registry.register("watermark_requests", "Answers by the status of their mark", marks.clone());
        registry.register("c2pa_manifests", "Texts by whether they could be signed", manifests.clone());
        registry.register(
            "request_success",
            "Texts by finish reason (abort: an answer that ended early)",
            finished.clone(),
        );
        let help = "Requests refused with status 429 or 503, by the code of the refusal";
        registry.register("admission_rejections", help, rejected.clone());
        let help = "Streams that ended with an error, which their status does not show, by its code";
        registry.register("stream_errors", help, broken.clone());
        registry.register("model_loads", "Models loaded, by name", loads.clone());
        let help = "From the first piece of a text to its end, per token after the first";
        registry.register("request_time_per_output_token_seconds", help, per_token.clone());
        registry.register("request_decode_time_seconds", "From the first piece of a text to its end", writing.clone());
        registry.register("prompt_tokens", "Tokens of prompts", prompt_tokens.clone());
        registry.register("generation_tokens", "Tokens written", generation_tokens.clone());
        registry.register("request_queue_time_seconds", "From a request to the turn of each text", queue.clone());
        let help = "From the turn of a request's first text to its first piece";
        registry.register("request_prefill_time_seconds", help, prefill.clone());
        registry.register("time_to_first_token_seconds", "From a request to its first piece", first_token.clone());
        registry.register("inter_token_latency_seconds", "From a piece to the next", between_pieces.clone());
        registry.register("e2e_request_latency_seconds", "From a request to its end", whole.clone());
        of_model.register(&mut registry);
        Self {
            registry,
            requests,
            marks,
            manifests,
            finished,
            rejected,
            broken,
            loads,
            prompt_tokens,
            generation_tokens,
            queue,
            prefill,
            first_token,
            between_pieces,
            per_token,
            writing,
            whole,
            of_model,
        }
    }
}

impl Metrics {
    /// All metrics as text, with the number of loaded models and the current statistics of their loops.
    pub(crate) fn text(&self, (loaded, of_models): (usize, Statistics)) -> String {
        self.of_model.set(loaded, &of_models);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, route: &str, status: u16) {
        self.requests.get_or_create(&Answered { route: route.into(), status }).inc();
    }

    /// Counts an answer by the status of its mark.
    pub(crate) fn marked(&self, status: &'static str) {
        self.marks.get_or_create(&[("status", status)]).inc();
    }

    /// Counts a text by whether it could be signed.
    pub(crate) fn signed(&self, status: &'static str) {
        self.manifests.get_or_create(&[("status", status)]).inc();
    }

    /// Counts a text by its finish reason.
    pub(crate) fn finished(&self, reason: &'static str) {
        self.finished.get_or_create(&[("finished_reason", reason)]).inc();
    }

    /// Counts a request by the code of its error, if the server had no room for it.
    pub(crate) fn refused(&self, status: u16, code: Option<&'static str>) {
        if let (429 | 503, Some(reason)) = (status, code) {
            self.rejected.get_or_create(&[("reason", reason)]).inc();
        }
    }

    /// Counts a stream that ended with an error.
    pub(crate) fn broke(&self, code: &'static str) {
        self.broken.get_or_create(&[("code", code)]).inc();
    }

    /// Counts a model that was loaded.
    pub(crate) fn loaded(&self, model: &str) {
        self.loads.get_or_create(&OfName { model: model.into() }).inc();
    }

    /// Counts the tokens read and written for an answer.
    pub(crate) fn tokens(&self, prompt: usize, written: usize) {
        self.prompt_tokens.inc_by(prompt as u64);
        self.generation_tokens.inc_by(written as u64);
    }

    /// Starts the clock of an answer, which runs until it is dropped.
    pub(crate) fn clock(self: &Arc<Self>) -> Clock {
        let now = Instant::now();
        Clock { metrics: self.clone(), begun: now, turn: None, texts: BTreeMap::new() }
    }
}

/// Measures an answer.
pub(crate) struct Clock {
    metrics: Arc<Metrics>,
    begun: Instant,
    /// When the first text had its turn.
    turn: Option<Instant>,
    /// When each text had its first and its last piece.
    texts: BTreeMap<usize, (Instant, Instant)>,
}

impl Clock {
    /// Records that a text has had its turn.
    pub(crate) fn text_begins(&mut self) {
        let now = Instant::now();
        self.metrics.queue.observe(now.duration_since(self.begun).as_secs_f64());
        self.turn.get_or_insert(now);
    }

    /// Records that a piece of a text has arrived.
    pub(crate) fn piece(&mut self, number: usize) {
        let now = Instant::now();
        let observe = |times: &Histogram, since: Instant| times.observe(now.duration_since(since).as_secs_f64());
        if self.texts.is_empty() {
            observe(&self.metrics.first_token, self.begun);
            self.turn.iter().for_each(|turn| observe(&self.metrics.prefill, *turn));
        }
        let times = self.texts.entry(number);
        let times = times.and_modify(|(_, last)| observe(&self.metrics.between_pieces, *last)).or_insert((now, now));
        times.1 = now;
    }

    /// Records that a text of `tokens` tokens has ended.
    pub(crate) fn text(&self, number: usize, tokens: usize) {
        let seconds = self.texts.get(&number).map_or(0.0, |(first, _)| first.elapsed().as_secs_f64());
        self.metrics.writing.observe(seconds);
        if tokens > 1 {
            self.metrics.per_token.observe(seconds / (tokens - 1) as f64);
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.metrics.whole.observe(self.begun.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of our metrics in some lines.
    fn names<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let words = lines.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_'));
        words.filter(|word| word.starts_with("verdigris_")).collect()
    }

    /// Pieces of texts that are written side by side are those of their own text.
    #[test]
    fn each_text_has_its_own_times() {
        let metrics: Arc<Metrics> = Arc::default();
        let mut clock = metrics.clock();
        [0, 1, 0, 2, 1, 1].into_iter().for_each(|number| clock.piece(number));
        (0..3).for_each(|number| clock.text(number, 2));
        let text = metrics.text((1, Statistics::default()));
        for line in [
            "inter_token_latency_seconds_count 3",
            "time_to_first_token_seconds_count 1",
            "request_decode_time_seconds_count 3",
        ] {
            assert!(text.contains(&format!("verdigris_{line}\n")), "{line}: {text}");
        }
    }

    /// A metric that does not exist is not an error for Prometheus and Grafana: an alert for it never fires.
    #[test]
    fn alerts_and_the_dashboard_name_exported_metrics_only() {
        let metrics = Metrics::default();
        // Counters with labels are exported from their first event on.
        metrics.answered("/", 200);
        metrics.marked("watermarked");
        metrics.signed("failed");
        metrics.finished("stop");
        metrics.refused(503, Some("overloaded"));
        metrics.broke("request_timeout");
        metrics.loaded("chat");
        let text = metrics.text((1, Statistics::default()));
        let exported = names(text.lines().filter(|line| !line.starts_with('#')));
        for (file, text) in [
            ("alerts.yaml", include_str!("../../../docs/deploy/alerts.yaml")),
            ("grafana.json", include_str!("../../../docs/deploy/grafana.json")),
        ] {
            let named = names(text.lines());
            assert!(named.len() > 5, "{file} names {named:?}");
            let missing: Vec<_> = named.difference(&exported).collect();
            assert!(missing.is_empty(), "{file} names metrics that are not exported: {missing:?}");
        }
    }
}
