//! The worker threads of the data API. Each accepts connections, serves them, and runs the turns of the
//! mesh for them, so that a request and its answer usually need no other thread. Their number follows from the
//! cores; they share their metrics. See docs/adr/0034.

use crate::acceptor::{Acceptor, AsyncListener};
use crate::browsers::BrowserGuard;
use crate::conn;
use crate::limits::ClientLimits;
use crate::metrics::ApiMetrics;
use crate::serve::{Error, Port, RestSettings, Tls, described, rest_context};
use server::{Handle, Worker};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// One core in two is for these workers; the others are for peers, disks and clients of the other API.
const CORES_PER_WORKER: usize = 2;
const WORKERS_MAX: usize = 16;
/// A worker polls for new bytes after so many tasks; before that, all tasks that are ready send their requests.
const TASKS_PER_POLL: u32 = 256;

/// Serves the REST API of the mesh until the future that `shutdown` makes for each worker ends, with probes and metrics.
/// Returns when all workers have finished their requests.
pub fn serve_rest<S>(
    handle: Handle,
    port: Port,
    settings: RestSettings,
    shutdown: impl Fn() -> S,
) -> Result<(), Error>
where
    S: Future<Output = ()> + Send,
{
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = (cores / CORES_PER_WORKER).clamp(1, WORKERS_MAX);
    let browsers = port.browser_guard(&handle);
    let Port { listener, tls, limits, .. } = port;
    let listener = listener.into_tcp()?;
    listener.set_nonblocking(true)?;
    let listeners = (0..workers).map(|_| listener.try_clone()).collect::<Result<Vec<_>, _>>()?;
    let metrics = Arc::new(ApiMetrics::new(&described(), false, &limits));
    thread::scope(|scope| {
        let worker = |listener: TcpListener| {
            let (handle, settings) = (handle.clone(), settings.clone());
            let (shutdown, metrics, tls) = (shutdown(), metrics.clone(), tls.clone());
            let port = WorkerPort { listener, tls, limits: limits.clone(), browsers: browsers.clone() };
            move || serve_worker(handle, port, settings, metrics, shutdown)
        };
        let builder = || thread::Builder::new().name("data-worker".to_owned());
        let threads = listeners.into_iter().map(|listener| builder().spawn_scoped(scope, worker(listener)));
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        let outcomes = threads.into_iter().map(|thread| thread.join().expect("a worker does not panic"));
        outcomes.fold(Ok(()), Result::and)
    })
}

/// What a worker has of the port that all serve.
struct WorkerPort {
    listener: TcpListener,
    tls: Option<Tls>,
    limits: ClientLimits,
    browsers: Arc<BrowserGuard>,
}

fn serve_worker(
    handle: Handle,
    port: WorkerPort,
    settings: RestSettings,
    metrics: Arc<ApiMetrics>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let worker = Worker::default();
    let resting = worker.clone();
    let mut builder = Builder::new_current_thread();
    builder.event_interval(TASKS_PER_POLL).on_thread_park(move || resting.rest()).enable_all();
    let runtime = builder.build()?;
    let outcome = runtime.block_on(async {
        let listener = AsyncListener::Tcp(tokio::net::TcpListener::from_std(port.listener)?);
        let acceptor = Acceptor::open(listener, port.limits.connections, metrics.traffic.clone());
        let shared = (port.limits.request_budget, port.browsers);
        // Streams of events never end by themselves.
        let (stop, stopping) = watch::channel(false);
        let shutdown = async move {
            shutdown.await;
            stop.send_replace(true);
        };
        let shared = rest_context(handle, worker, settings, metrics, port.tls, shared, stopping);
        conn::serve(shared, acceptor, shutdown).await
    });
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}
