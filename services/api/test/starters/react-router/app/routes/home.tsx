import { Link } from "react-router";

export function meta() {
  return [{ title: "New React Router App" }];
}

export default function Home() {
  return (
    <main>
      <h1>Welcome to React Router!</h1>
      <Link to="/people/ana">Ana</Link>
    </main>
  );
}
