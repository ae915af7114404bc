//! Every route of the REST API, with the methods that it takes.
//! The router is made of this list, and a test holds the description in `openapi.rs` against it: what is served is
//! described, and what is described is served.

use super::{
    Rest, batch, conflicts, crdt, data, handlers, home, namespaces, openapi, range, regions, ring, select,
    store,
};
use axum::handler::Handler;
use axum::routing::MethodRouter;

pub struct Route {
    /// As the router reads it: a last `{*key}` takes slashes too.
    pattern: String,
    pub handler: MethodRouter<Rest>,
    methods: Vec<&'static str>,
}

impl Route {
    fn at(pattern: impl Into<String>) -> Route {
        Route { pattern: pattern.into(), handler: MethodRouter::new(), methods: Vec::new() }
    }

    pub fn pattern(&self) -> String {
        self.pattern.clone()
    }

    fn get<T: 'static>(mut self, handler: impl Handler<T, Rest>) -> Route {
        self.methods.push("get");
        self.handler = self.handler.get(handler);
        self
    }

    fn put<T: 'static>(mut self, handler: impl Handler<T, Rest>) -> Route {
        self.methods.push("put");
        self.handler = self.handler.put(handler);
        self
    }

    fn post<T: 'static>(mut self, handler: impl Handler<T, Rest>) -> Route {
        self.methods.push("post");
        self.handler = self.handler.post(handler);
        self
    }

    fn delete<T: 'static>(mut self, handler: impl Handler<T, Rest>) -> Route {
        self.methods.push("delete");
        self.handler = self.handler.delete(handler);
        self
    }

    /// A key may be called like the route; it is described with the other keys.
    fn or_a_key(mut self) -> Route {
        self.handler = self.handler.get(data::get).put(data::put).delete(data::delete);
        self
    }

    /// The same below another path.
    fn below(mut self, base: &str) -> Route {
        self.pattern = format!("{base}{}", self.pattern);
        self
    }
}

/// Where the routes of a namespace lie when the path names it.
const NAMED: &str = "/v1/namespaces/{ns}";

pub fn all() -> Vec<Route> {
    let mut routes = vec![
        Route::at("/v1/namespaces").get(namespaces::list),
        Route::at("/v1/namespaces/{ns}").get(namespaces::get).put(namespaces::put).delete(namespaces::delete),
        Route::at("/v1/namespaces/{ns}/home").get(home::get).put(home::put),
        Route::at("/v1/handlers").get(handlers::list),
        Route::at("/v1/handlers/{handler}").get(handlers::get).put(handlers::put).delete(handlers::delete),
        Route::at("/v1/conflicts").get(conflicts::list),
        Route::at("/v1/conflicts/{id}").get(conflicts::get),
        Route::at("/v1/conflicts/{id}/restore").post(conflicts::restore),
        Route::at("/v1/regions").get(regions::list),
        Route::at("/v1/regions/{region}").get(regions::get).put(regions::put).delete(regions::delete),
        Route::at("/v1/ring").get(ring::get),
        Route::at("/v1/ring/nodes/{node}").delete(ring::leave).put(ring::stay),
        Route::at("/openapi.json").get(openapi::get),
    ];
    for (base, make) in [
        ("/api/v1/store".to_owned(), of_store as fn() -> Vec<Route>),
        (format!("{NAMED}/store"), of_store),
        ("/v1/data".to_owned(), of_data),
        (format!("{NAMED}/data"), of_data),
        ("/v1/crdt".to_owned(), of_crdt),
        (format!("{NAMED}/crdt"), of_crdt),
    ] {
        routes.extend(make().into_iter().map(|route| route.below(&base)));
    }
    routes
}

fn of_store() -> Vec<Route> {
    let one = |pattern| Route::at(pattern).get(store::get).put(store::put).delete(store::delete);
    vec![
        Route::at("/keys").post(store::post),
        one("/keys/{*key}"),
        Route::at("/key").put(store::post).get(store::get).delete(store::delete),
        one("/key/{*key}"),
        Route::at("/batch").post(batch::write),
        Route::at("/range").get(range::get),
    ]
}

fn of_data() -> Vec<Route> {
    vec![
        Route::at("").get(select::get),
        Route::at("/batch").post(batch::either).or_a_key(),
        Route::at("/batch/read").post(batch::read).or_a_key(),
        Route::at("/batch/write").post(batch::write).or_a_key(),
        Route::at("/{*key}").get(data::get).put(data::put).delete(data::delete),
    ]
}

fn of_crdt() -> Vec<Route> {
    vec![Route::at("/{*key}").get(crdt::get).post(crdt::post).delete(crdt::delete)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// How the description writes a route.
    fn described(method: &str, pattern: &str) -> String {
        match (pattern.contains("/crdt/"), method) {
            (true, "post") => pattern.replace("{*key}", "{type}:{key}/{operation}"),
            (true, _) => pattern.replace("{*key}", "{type}:{key}"),
            (false, _) => pattern.replace("{*key}", "{key}"),
        }
    }

    #[test]
    fn what_is_served_is_described_and_what_is_described_is_served() {
        let all = all();
        let served: BTreeSet<(String, String)> = all
            .iter()
            .flat_map(|route| route.methods.iter().map(|method| (*method, &route.pattern)))
            .map(|(method, pattern)| (described(method, pattern), method.to_owned()))
            .collect();
        let document = openapi::document();
        let paths = document["paths"].as_object().unwrap();
        let written: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |method| (path, method)))
            .map(|(path, method)| (path.clone(), method.clone()))
            .collect();
        assert_eq!(served, written);
    }
}
