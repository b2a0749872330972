import { defineEventHandler, getRouterParam } from "h3";

export default defineEventHandler((event) => ({ name: getRouterParam(event, "name") }));
