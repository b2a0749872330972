import { type RouteConfig, index, route } from "@react-router/dev/routes";

export default [index("routes/home.tsx"), route("people/:name", "routes/person.tsx")] satisfies RouteConfig;
