import type { Route } from "./+types/person";

export function loader({ params }: Route.LoaderArgs) {
  return { greeting: `Hello ${params.name}` };
}

export default function Person({ loaderData }: Route.ComponentProps) {
  return <h1>{loaderData.greeting}</h1>;
}
