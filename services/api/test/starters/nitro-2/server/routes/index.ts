import { defineEventHandler } from "h3";

export default defineEventHandler(() => "Start by editing <code>server/routes/index.ts</code>.");
