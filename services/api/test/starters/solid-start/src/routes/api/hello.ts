export const GET = () => Response.json({ hello: "world" });
